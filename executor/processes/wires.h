// Messages between members of groups that live in several processes: a TCP connection for every two
// processes whose ranks exchange something (wire_peers.h), and a thread that reads them all.
//
// A message moves when both ends have come to it. The receiving process reports its member as
// ready; the sending process answers with the bytes, straight out of the sender's memory into the
// receiver's. So nothing is buffered, and a plan with a possible deadlock on NCCL hangs here as
// well, until the deadline. Small messages of a collective go unasked, since it ends for nobody
// before all have come (wire_lanes.h). Ends in one process meet without a connection.
//
// The k-th send from one member to another meets the k-th receive; ends that differ are an error
// that names both. A connection that closes without a word is a process that died. The first
// surviving process decides on the failure, and every process ends with its status.
//
// Frames may be carried by something else than TCP: a derived class then opens the
// connections and has a loop of its own (executor/mpi).
//
// One lock guards everything: the streams that wait (wire_waits.h), the lanes on which ends meet
// (wire_lanes.h), the connections (wire_connection.h) and the failure (wire_failure.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/cpu/device.h"
#include "executor/engine/link.h"
#include "executor/engine/rank_states.h"
#include "executor/engine/world.h"
#include "executor/processes/process_names.h"
#include "executor/processes/wire_connect.h"
#include "executor/processes/wire_connection.h"
#include "executor/processes/wire_failure.h"
#include "executor/processes/wire_lanes.h"
#include "executor/processes/wire_peers.h"
#include "executor/processes/wire_poll.h"
#include "executor/processes/wire_waits.h"

namespace stringline {

struct WireSettings : WireDeadlines {
  int64_t join_ms = 120'000;  // until all are connected
  WireProof proof;            // of each connection
  // How slow messages are made: a member that has part in a call is held for so long after it.
  LinkSpeed link;
};

class Wires : protected WireReader {
 public:
  Wires(CpuDevice* device, World* world, const WireSettings& settings);
  ~Wires() override;
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  // A group of these ranks, by its number; `talks` as in Groups::New. All processes make the same
  // ones in the same order.
  int NewGroup(absl::Span<const int> ranks, absl::Span<const MemberPair> talks);
  // Opens the connections that the groups need and that are not there yet, and waits until all have
  // made their groups. All call it. Errors: those of ConnectPeers; ResourceExhausted if the system
  // starts no thread.
  absl::Status Connect();

  bool IsHere(int rank) const { return names_.IsHere(rank); }

  // The stream continues when all these messages are done. At least one end of each is in this
  // process.
  void Start(int group, const WireWaits::Onward& onward, absl::Span<const Transfer> sends,
             absl::Span<const Transfer> receives);
  // The time for which a member is held after a call that moves so many of its bytes.
  int64_t HeldNs(int64_t bytes) const { return settings_.link.TransferNs(bytes); }
  // The run has failed.
  void Fail(const absl::Status& status);
  // As Groups::Agree.
  absl::Status Agree(const absl::Status& status);
  // As Groups::TellStates.
  void TellStates(const RankStates* states);
  // As Groups::AskForRecords and Groups::OnAskForRecords.
  void AskForRecords(int64_t number);
  void OnAskForRecords(std::function<void(int64_t)> asked);

 protected:
  using Lock = std::unique_lock<std::mutex>;

  // Opens the connections that are missing. Over TCP the errors are those of ConnectProcesses.
  virtual absl::Status ConnectPeers();
  // Carries frames until `stopping_`, and then for a while until they are sent.
  virtual void Loop();
  // Says goodbye and ends the loop; called first by the destructor of whoever overrides it.
  void Stop();
  // The lock, without sleeping if it is free soon.
  Lock Take();

  // With the lock held.
  bool reads() const override { return !failure_.settled(); }
  bool BeginFrame(WireConnection* from) override;
  void EndFrame(WireConnection* from) override;
  void Read(WireConnection* connection);
  void CheckDeadlines();
  // Hands a new wish on to all but the process from which it came, or -1.
  bool HandOnWish(int64_t number, int from);
  void NoticeIf(const absl::Status& status) {
    if (!status.ok()) failure_.Notice({status});
  }

  int64_t ConnectMs() const;  // the most that all may take to connect

  World* const world_;
  CpuDevice* const device_;
  const WireSettings settings_;
  ProcessNames names_;
  WirePeers peers_;
  bool connected_ = false;

  std::mutex mutex_;
  WirePoll poll_;
  WireWaits waits_;
  std::deque<WireConnection> connections_;  // by process; this process's own is never opened
  WireLanes lanes_;
  WireFailure failure_;
  bool stopping_ = false;
  struct {
    int64_t number = 0;  // the last one's
    std::function<void(int64_t)> asked;
  } wish_;

 private:
  absl::Status LateToConnect(int64_t most_ms, std::vector<int> late);
  absl::Status StartReading();

  std::vector<std::thread> thread_;  // the reading thread; none before Connect
};

}  // namespace stringline
