// Messages between members of groups that live in several processes: one TCP connection for every
// two processes, and one thread that reads them all.
//
// A message moves when both ends have come to it. The receiving process says that its member is
// ready; the sending one answers with the bytes, straight out of the sender's memory into the
// receiver's. So nothing is buffered, and a plan that could hang on NCCL hangs here as well, until
// the deadline. Ends in one process meet without a connection.
//
// The k-th send from one member to another meets the k-th receive; ends that differ are an error
// that names both. A connection that closes without a word is a process that died. Process 0
// decides which failure it is, and every process ends with that status.
#pragma once

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
#include "executor/processes/wire_inquiry.h"
#include "executor/world.h"

namespace stringline {

struct WireSettings {
  int64_t join_ms = 120'000;  // until all are connected
  int64_t wait_ms = 600'000;  // until an end of a message has met the other; 0: for ever
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

  // The stream, which waits for it (CpuDevice::Await), goes on when all these are done. Either end
  // of each is of this process, or both are. `ended_ns`, if not null, is when.
  void Start(int group, StreamId stream, absl::Span<const Transfer> sends,
             absl::Span<const Transfer> receives, int64_t* ended_ns);
  // The run has failed.
  void Fail(const absl::Status& status);

 private:
  static constexpr uint32_t kMark = 0x31525753;  // "SWR1"
  static constexpr int64_t kMostText = 1 << 16;

  // What a stream waits for.
  struct Waiting {
    StreamId stream;
    int left = 0;
    int64_t* ended_ns = nullptr;
  };
  struct End {
    Transfer transfer;
    int waiting = -1;
    int64_t since_ns = 0;
  };
  enum class FrameKind : uint8_t { kReady = 1, kData, kDiffers, kFail, kAsk, kWaits, kBye };
  // The beginning of a frame; `length` bytes follow.
  struct Header {
    uint32_t mark = 0;
    FrameKind kind = FrameKind::kBye;
    CallKind call = CallKind::kSend;
    int32_t group = 0, from = 0, to = 0, peer = 0;
    int64_t bytes = 0, index = 0;  // of the call
    int64_t room = 0;              // of kReady: what the receiver takes; -1: nothing moves
    int64_t length = 0;
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
    bool left = false;  // said goodbye
    std::deque<Outgoing> outgoing;
    int64_t written = 0;  // of the first
    Header header;
    int64_t read = 0;  // of the frame under way
    char* target = nullptr;
    std::string text;
    std::optional<std::vector<RankWait>> waits;  // its answer to an inquiry
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

  // "process 3 on gpu1"
  std::string NameOf(int process) const;
  Lane& LaneOf(int group, int from, int to) {
    Members& members = groups_[group];
    return members.lanes[from * members.ranks.size() + to];
  }
  // These hold the lock.
  void PostSend(int group, const Transfer& send, int waiting);
  void PostReceive(int group, const Transfer& receive, int waiting);
  void MeetHere(Lane& lane);
  void MeetReady(int group, Lane& lane);
  void Done(int waiting);
  void Put(int process, Outgoing outgoing);
  void Write(int process);
  void Read(int process);
  // The frame's header is there: where its bytes go. False: it is no frame of ours.
  bool BeginFrame(Peer* peer);
  void EndFrame(int process);
  void Lost(int process, const std::string& why);
  template <typename Visit>
  void ForWaitingEnds(Visit visit) const;
  std::string AwaitedFrom(int process) const;
  std::vector<RankWait> OwnWaits() const;
  void SetFailure(absl::Status status, int told_by = -1);
  void Settle(absl::Status status);
  void Inquire(absl::Status status);
  void EndInquiry();
  void Tell(int process, const absl::Status& status);
  void CheckDeadline();

  void Loop();
  void Wake();

  CpuDevice* const device_;
  World* const world_;
  const WireSettings settings_;
  std::vector<int> process_of_rank_;
  std::vector<std::string> hosts_;  // by process
  bool connected_ = false;

  std::mutex mutex_;
  std::deque<Members> groups_;
  std::vector<Waiting> waiting_;
  std::vector<int> free_waiting_;
  std::vector<Peer> peers_;  // by process
  absl::Status failure_;     // of the run
  absl::Status noticed_;     // before process 0 has said which it is
  int64_t noticed_ns_ = 0;
  bool stopping_ = false;
  int wake_fd_ = -1;
  std::vector<std::thread> thread_;  // that reads; none before Connect
};

}  // namespace stringline
