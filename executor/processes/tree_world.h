// The meetings of a run's processes by a tree (process_tree.h), over whatever carries their words.
//
// In a meeting each process joins what its children gave to its own part and gives that to its
// parent; process 0 has everything, and what all get comes down the same way. So each process hears
// and tells as many as the fan-out, and nothing in a meeting grows with the number of processes but
// the texts of all. Process 0 has a word with every other process besides: for failures and
// goodbyes.
//
// Process 0 decides on failures, and tells all. When a deadline comes near it asks everybody it has
// nothing from whether they are in the meeting, since the ones behind a process that stands still
// are missing too: late is who does not answer, or is not there. Whoever waits for process 0 asks
// it, and its parent, in the same way; where neither answers, the parent is late. What a process
// notices of its neighbours, as a connection that ended, counts when process 0 has said nothing
// within a second.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "executor/engine/world.h"
#include "executor/processes/frames.h"
#include "executor/processes/process_tree.h"
#include "executor/processes/tree_answers.h"
#include "executor/processes/tree_meeting.h"

namespace stringline {

class TreeWorld : public World {
 public:
  int ranks() const final { return ranks_; }
  absl::Span<const int> local() const final { return local_; }
  int processes() const final { return processes_; }
  int process() const final { return place_.block.first; }
  // The bytes that a process receives in a sum of so many numbers, and sends.
  static int64_t BytesOfSum(const TreePlace& place, int64_t numbers);

  std::string NameOfRank(int rank) const final;
  std::string NameOfProcess(int process) const final;
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) final;
  absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) final;
  absl::Status Sum(absl::Span<uint64_t> numbers) final;
  void Fail(const absl::Status& status) final;
  void Working() final;
  bool FirstAnswers(int64_t most_ms) final;
  std::vector<int> late() const final { return late_; }
  absl::Status state() final;

 protected:
  struct Shape {
    int process = 0, processes = 1;
    int ranks = 0;  // 0: one per process
    int fan_out = kTreeFanOut;
    std::string host;  // of processes whose own is not known
  };
  TreeWorld(const Shape& shape, int64_t wait_ms);

  // Words to process 0, from it, and between neighbours. Does not wait; nothing without a
  // connection.
  virtual void Send(int process, FrameKind kind, absl::string_view bytes) = 0;
  // True while something that was sent there is still under way.
  virtual bool HasUnsent(int process) const = 0;
  virtual bool Reaches(int /*parent*/) const { return true; }
  // Reads and writes what is ready, after a wait of at most so long for something.
  virtual void Look(int64_t most_ns) = 0;
  // The beginning of a wait.
  virtual void BeginsToWait() {}

  void Handle(int peer, FrameKind kind, std::string bytes);
  void Lost(int peer, const std::string& why);
  // The run has failed: tells every process that can be reached.
  void SetFailure(absl::Status status, int except = -1);
  const absl::Status& failure() const { return failure_; }
  // The run has failed, and there is no way to tell anybody.
  void FailAlone(absl::Status status) { failure_.Update(std::move(status)); }
  bool first() const { return place_.parent < 0; }
  const TreePlace& place() const { return place_; }
  const std::set<int>& left() const { return left_; }
  void SetHost(int process, const std::string& host) { hosts_[process] = host; }
  void SetWaitMs(int64_t ms) { wait_ms_ = ms; }
  // The contents of this process's goodbye: the meetings that it has been in.
  std::string Goodbye() const;

 private:
  // Makes one text of this process's part and its children's, in this order; nothing if these
  // cannot be read.
  using Joining =
      absl::FunctionRef<std::optional<std::string>(absl::Span<const std::string> parts)>;

  // The joined text of all in process 0; elsewhere what came from above: the same, or "" unless
  // `to_all`.
  absl::StatusOr<std::string> Meet(Joining join, bool to_all);
  absl::StatusOr<std::string> MeetWith(absl::string_view mine, bool to_all);
  absl::StatusOr<std::vector<std::string>> PartsOf(absl::string_view all);
  absl::Status Unreadable();
  std::optional<std::string> GoUp(Joining join);
  void HandDown(absl::string_view bytes);
  void AwaitUntil(absl::FunctionRef<bool()> done);
  int64_t NextNs() const;
  void WaitAnew();
  void Check();
  void CheckLeft();
  void CheckDeadline();
  void Suspect(absl::Status status, std::vector<int> late = {});
  void AdoptSuspicion();

  void Ask();
  void TellWhereIAm();
  void JudgeMissing();
  void FailLate(std::vector<int> late);
  absl::Status DescribeMissing();

  const TreePlace place_;
  const int processes_, ranks_;
  const std::vector<int> local_;
  std::vector<std::string> hosts_;  // by process
  int64_t wait_ms_;
  TreeMeeting meeting_;
  struct {
    int64_t until_ns = 0;  // the deadline of the meeting
    int64_t ask_ns = 0;
    int64_t told_working_ns = 0;
    int64_t first_heard_ns = 0;  // the last word of process 0
  } times_;
  struct {
    bool done = false;  // in this wait
    int rounds = 0;
    int64_t of = 0;      // the meeting after which process 0 has asked
    std::set<int> by;    // others that wait for this process to come
    bool works = false;  // and are told that it works
    TreeAnswers answers;
  } asked_;
  struct {
    absl::Status status;
    std::vector<int> late;
    int64_t until_ns = 0;  // counts from then on
  } suspicion_;
  std::set<int> left_;  // said goodbye
  int64_t first_completed_ = 0;
  std::vector<int> late_;
  absl::Status failure_;
};

}  // namespace stringline
