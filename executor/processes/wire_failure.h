// The failure of a run of several processes: which process notices it, which decides what it is,
// and which are told.
//
// Failures may be noticed in several places at once. The first of the deciders (wire_peers.h) that
// has not left decides which one is the run's: the first that it has noticed or was told of. If a
// rank waited too long or a process died, it asks all others what they know before it decides. If
// it does not decide in time, the next decider does. Where none is left, each process settles what
// it knows, and tells its peers, which hand it on. The failure is settled once, and never changes
// afterwards.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/cpu/device.h"
#include "executor/engine/rank_states.h"
#include "executor/processes/process_names.h"
#include "executor/processes/wire_connection.h"
#include "executor/processes/wire_frames.h"
#include "executor/processes/wire_inquiry.h"
#include "executor/processes/wire_lanes.h"

namespace stringline {

struct WireDeadlines {
  int64_t wait_ms = 600'000;  // until an end of a message has met the other; 0: for ever
  // After a failure: so long may other processes take to answer, and the one that decides to say
  // which failure it is.
  int64_t ask_ms = 1000;
  int64_t decide_ms = 3000;
};

class WireFailure {
 public:
  WireFailure(const ProcessNames* names, const WireDeadlines& deadlines, CpuDevice* device,
              std::deque<WireConnection>* connections, const WireLanes* lanes);

  // The processes are known, and these of them decide.
  void SetDeciders(std::vector<int> deciders) { deciders_ = std::move(deciders); }
  // The run's failure, once it is settled.
  const absl::Status& status() const { return settled_; }
  bool settled() const { return !settled_.ok(); }
  // Waits with `lock`, which guards this object, until the failure is settled, or `most`.
  bool WaitUntilSettled(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds most);
  // The longest time until some process decides.
  std::chrono::milliseconds MostUntilSettled() const;

  // A failure, as far as this process knows.
  struct Trouble {
    absl::Status status;
    int dead = -1;               // the process that died, if one did
    int by = -1;                 // the process whose connection to it closed without a goodbye
    std::vector<int> late = {};  // processes missing at an Exchange
  };
  void Notice(Trouble trouble);
  // The failure that all are told in another way.
  void TakeOver(const absl::Status& status) { Settle(status, /*tells=*/false); }
  // A connection is lost, unless this process ends (`ending`).
  void NoticeLost(int process, bool left, bool ending, const std::string& why);
  // A frame kNoticed, kFail, kAsk or kAnswer.
  void Come(WireConnection* from);
  // Notices a message that is late, and goes on with a decision; to be called now and then.
  void CheckDeadlines();
  // As Groups::TellStates.
  void TellStates(const RankStates* states) { states_ = states; }

 private:
  int Decider() const;
  bool IsDecider(int process) const;
  void TellDecider();
  void Decide();
  void Inquire(int of);
  void EndInquiry();
  bool IsAsked();
  void ComeNoticed(const WireConnection& from);
  void ComeAsk(const WireConnection& from);
  void ComeAnswer(const WireConnection& from);
  void AnswerFor(int process, bool lives);
  void Answer(int asker, int64_t number, int lives);
  std::string DescribeClosed(const WireAnswers& answers) const;
  void Settle(absl::Status status, bool tells);
  void Tell(int process, WireFrame kind, const Trouble& trouble);
  void NoticeLateMessage();
  WireAnswer OwnAnswer() const;
  WireAnswers AllAnswers() const;
  std::string DescribeLate(const WireAnswers& answers) const;

  const ProcessNames* const names_;
  const WireDeadlines deadlines_;
  CpuDevice* const device_;
  std::deque<WireConnection>* const connections_;  // by process
  const WireLanes* const lanes_;
  const RankStates* states_ = nullptr;
  absl::Status settled_;
  std::condition_variable settles_;
  Trouble noticed_;  // before the failure is settled
  int64_t noticed_ns_ = 0;
  int told_ = -1;              // the process that decides, once told
  std::vector<int> deciders_;  // in their order; none before all processes are known
  std::vector<bool> silent_;   // by process: did not decide in time
  // An inquiry: the own process decides, and has asked all others.
  struct Inquiry {
    int64_t number = 0;                              // 0: not begun
    int of = -1;                                     // the process that seems dead
    bool lives = false;                              // and is not
    size_t done = 0;                                 // all before have answered, or cannot
    std::vector<std::optional<WireAnswer>> answers;  // by process
  };
  Inquiry inquiry_;
  // A decider asks a process for another decider, which has no connection to it.
  struct Question {
    int of = -1, asker = -1;
    int64_t number = 0;
  };
  std::vector<Question> questions_;
  std::vector<int> noticers_;  // have told this process, and may not hear another decider
};

}  // namespace stringline
