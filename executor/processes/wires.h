// Messages between members of groups that live in several processes: one TCP connection for every
// two processes, and one thread that reads them all.
//
// A message moves when both ends have come to it. The receiving process says that its member is
// ready; the sending one answers with the bytes, straight out of the sender's memory into the
// receiver's. So nothing is buffered, and a plan that could hang on NCCL hangs here as well, until
// the deadline. Ends in one process meet without a connection.
//
// The k-th send from one member to another meets the k-th receive; ends that differ are an error
// that names both. A connection that closes without a word is a process that died. The first
// process that is left decides which failure it is, and every process ends with that status.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cpu/device.h"
#include "executor/group.h"
#include "executor/link.h"
#include "executor/processes/wire_inquiry.h"
#include "executor/rank_states.h"
#include "executor/world.h"

namespace stringline {

struct WireSettings {
  int64_t join_ms = 120'000;  // until all are connected
  int64_t wait_ms = 600'000;  // until an end of a message has met the other; 0: for ever
  // How slow messages are made: whoever has part in a call is held for so long after it.
  LinkSpeed link;
  // When something has failed: so long may others take to answer what they wait for, and the one
  // that decides what it was to say so.
  int64_t ask_ms = 1000;
  int64_t decide_ms = 3000;
};

// What a member sends to another or gets from it.
struct Transfer {
  int from = 0, to = 0;  // members
  const void* source = nullptr;
  void* target = nullptr;
  int64_t bytes = 0;
  const Call* call = nullptr;
};

class Wires {
 public:
  Wires(CpuDevice* device, World* world, const WireSettings& settings);
  ~Wires();
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  // A group of these ranks, by its number. All processes make the same ones in the same order.
  int NewGroup(absl::Span<const int> ranks);
  // Connects the processes, the first time, and waits until all have made their groups. All call
  // it. Errors: those of World::Exchange; DeadlineExceeded, Unavailable where a process cannot be
  // reached; ResourceExhausted where the system starts no thread.
  absl::Status Connect();

  bool IsHere(int rank) const { return process_of_rank_[rank] == world_->process(); }

  // What a stream waits for (CpuDevice::Await), and when it goes on.
  struct Onward {
    StreamId stream;
    int64_t held_ns = 0;          // so long after all is done
    int64_t* ended_ns = nullptr;  // where the moment is written, or null
  };
  // The stream goes on when all these are done. Either end of each is of this process, or both are.
  void Start(int group, const Onward& onward, absl::Span<const Transfer> sends,
             absl::Span<const Transfer> receives);
  // How long a member is held that has part in a call with so many bytes of its own on the way.
  int64_t HeldNs(int64_t bytes) const { return settings_.link.TransferNs(bytes); }
  // The run has failed.
  void Fail(const absl::Status& status);
  // As Groups::Agree.
  absl::Status Agree(const absl::Status& status);
  // As Groups::TellStates.
  void TellStates(const RankStates* states);

 private:
  static constexpr uint32_t kMark = 0x31525753;  // "SWR1"
  static constexpr int64_t kMostText = 1 << 16;

  // What a stream waits for.
  struct Waiting {
    Onward onward;
    int left = 0;
  };
  // Of one whose messages have all been done.
  struct Hold {
    int64_t due_ns = 0;
    int waiting = -1;
    friend bool operator>(const Hold& a, const Hold& b) { return a.due_ns > b.due_ns; }
  };
  struct End {
    Transfer transfer;
    int waiting = -1;
    int64_t since_ns = 0;
  };
  enum class FrameKind : uint8_t {
    kReady = 1,
    kData,
    kDiffers,
    kNoticed,  // a failure, for the one that decides
    kFail,     // the one that it is
    kAsk,
    kAnswer,
    kBye
  };
  // The beginning of a frame; `length` bytes follow.
  struct Header {
    uint32_t mark = 0;
    FrameKind kind = FrameKind::kBye;
    CallKind call = CallKind::kSend;
    int32_t group = 0, from = 0, to = 0;
    int32_t peer = 0;              // of the call
    int64_t bytes = 0, index = 0;  // of the call; `index` of a failure: its code
    int64_t room = 0;              // of kReady: what the receiver takes; -1: nothing moves
    int64_t length = 0;
    // Of kNoticed: `peer` is the process that died and `to` one that is late, or -1.
  };
  // Of one member to another. At most one end waits, or is ready, in nearly all runs.
  struct Lane {
    absl::InlinedVector<End, 1> sends, receives;
    absl::InlinedVector<Header, 1> ready;  // receivers of other processes
  };
  struct Members {
    std::vector<int> ranks;
    std::vector<Lane> lanes;  // by sender and receiver
  };
  // What is to be written to another process.
  struct Outgoing {
    Header header;
    const char* bytes = nullptr;
    std::string text;  // instead of bytes
    int waiting = -1;  // goes on when this is written
  };
  struct Peer {
    int fd = -1;
    bool left = false;    // said goodbye
    bool silent = false;  // did not say in time what failed
    bool deaf = false;    // nothing can be written to it; what it wrote may still come
    std::deque<Outgoing> outgoing;
    int64_t written = 0;  // of the first
    Header header;
    int64_t read = 0;  // of the frame under way
    char* target = nullptr;
    std::string text;
    std::optional<WireAnswer> answer;  // to an inquiry
  };
  // The last message between a rank of this process and one of another.
  struct Ended {
    int rank = 0, peer = 0;
    int64_t ended_ns = 0;
    Call call;  // as it was, for its names
  };
  // What went wrong, as far as this process knows.
  struct Trouble {
    absl::Status status;
    int dead = -1;               // the process that died, where one did
    std::vector<int> late = {};  // those that did not come to an Exchange
  };
  using Lock = std::unique_lock<std::mutex>;

  // Where a process listens, and which ranks it has.
  struct Address {
    std::string host;
    int port = 0;
  };
  absl::StatusOr<std::vector<Address>> ShareAddresses(int listener);
  absl::Status ConnectAll();
  absl::Status StartReading();
  absl::Status AcceptOthers(int listener, int64_t deadline_ns);

  // "rank 3 on gpu1"; "process 1 with ranks 2, 3 on gpu1"
  std::string NameOf(int process) const;
  std::string NameOfRank(int rank) const;
  std::vector<int> RanksOf(int process) const;
  Lane& LaneOf(int group, int from, int to) {
    Members& members = groups_[group];
    return members.lanes[from * members.ranks.size() + to];
  }
  // These hold the lock.
  void PostSend(int group, const Transfer& send, int waiting);
  void PostReceive(int group, const Transfer& receive, int waiting);
  void MeetHere(int group, Lane& lane);
  void MeetReady(int group, Lane& lane);
  void Done(int waiting);
  void NoteEnded(int group, const Transfer& transfer);
  absl::Status CountsDiffer(int group, const Transfer& send, int64_t room) const;
  void Put(int process, Outgoing outgoing);
  void Write(int process);
  void Read(int process);
  // The frame's header is there: where its bytes go. False: it is no frame of ours.
  bool BeginFrame(Peer* peer);
  void EndFrame(int process);
  void Lost(int process, const std::string& why);
  template <typename Visit>
  void ForWaitingEnds(Visit visit) const;
  WireAnswer OwnAnswer() const;
  // The one that decides: the first process that is left.
  int Decider() const;
  void Notice(Trouble trouble);
  void TellDecider();
  // Of the one that decides.
  void Decide();
  void EndInquiry();
  void Settle(absl::Status status);
  WireAnswers AllAnswers() const;
  std::string DescribeLate(const WireAnswers& answers) const;
  void Tell(int process, FrameKind kind, const Trouble& trouble);
  void CheckDeadline();

  // Lets go on whoever has been held long enough; returns when the next one is due, or 0.
  int64_t EndHolds();
  void GoOn(int waiting);

  void Loop();
  void Wake();

  CpuDevice* const device_;
  World* const world_;
  const WireSettings settings_;
  std::vector<int> process_of_rank_;
  std::vector<std::string> hosts_;  // by process
  bool connected_ = false;

  std::mutex mutex_;
  std::condition_variable settled_;
  const RankStates* states_ = nullptr;
  std::deque<Members> groups_;
  std::vector<Waiting> waiting_;
  std::vector<Hold> holds_;  // a heap, the first due on top
  std::vector<int> free_waiting_;
  std::vector<Peer> peers_;   // by process
  std::vector<Ended> ended_;  // by other process; of a rank -1: none
  absl::Status failure_;      // of the run
  Trouble noticed_;           // before it is said which failure it is
  int64_t noticed_ns_ = 0;
  int told_ = -1;       // the one that decides, which was told
  bool asked_ = false;  // this one decides, and has asked all
  bool stopping_ = false;
  int wake_fd_ = -1;
  std::vector<std::thread> thread_;  // that reads; none before Connect
};

}  // namespace stringline
