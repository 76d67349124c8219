// The frames of messages (processes/wires.h) over MPI instead of TCP: what meets, what differs, who
// is late and whose fault it is are the same.
//
// A frame is a message of MPI: its header, and behind it up to kMostInline bytes. Longer ones are a
// message of their own, whose tag the header tells, out of the sender's memory straight into the
// receiver's. MPI leaves them with the sender until the receiver takes them, so messages of
// collectives go unasked whatever their size (wire_lanes.h).
//
// MPI has no call that sleeps until something comes, and several threads may wait. A thread of the
// device that has nothing to run looks at MPI itself for a short while, so that an answer that
// comes soon wakes nobody. Else one thread looks: all the time while messages come, and in longer
// and longer pauses when none do (pauses.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "executor/mpi/mpi_session.h"
#include "executor/mpi/pauses.h"
#include "executor/processes/wires.h"

namespace stringline {

class MpiWires final : public Wires, private FrameCarrier, private Lookout {
 public:
  MpiWires(CpuDevice* device, World* world, const WireSettings& settings,
           std::shared_ptr<mpi::Session> session)
      : Wires(device, world, settings), session_(std::move(session)) {
    device->LookAt(this);
  }
  ~MpiWires() override;

 private:
  static constexpr int64_t kMostInline = 3072;
  static constexpr int64_t kSlotBytes = sizeof(WireHeader) + kMostInline;
  using Slot = std::unique_ptr<char[]>;

  // A frame under way to another process, or bytes under way from one.
  struct Moving {
    Slot slot;          // header and inline bytes
    std::string text;   // longer than a slot holds; or bytes that are dropped
    int waiting = -1;   // done when the bytes are sent
    int left = 0;       // requests
    int from = -1;      // process; -1: a frame that is sent
    WireHeader header;  // of bytes that come
  };

  absl::Status ConnectPeers() override;
  absl::Status Open();
  void Loop() override;
  void Carry(int process, Outgoing frame) override;
  void TakeBytes(int process, const WireHeader& header, void* target) override;
  bool LookOut(int64_t since_ns) override;

  // With the lock of the wires held.
  bool Look();
  void Ended(int request, const mpi::Status& status);
  void TakeFrame(int process, int64_t bytes);
  void EndFrameOf(int process);
  void Listen(int process);
  void EndMoving(int request);
  int NewMoving();
  mpi::Request* NewRequest(int moving);
  bool Leaves();
  void LeaveRest();
  // False if a call of MPI failed, which fails the run.
  bool Succeeded(int result, const char* function);

  const std::shared_ptr<mpi::Session> session_;
  mpi::Comm comm_ = nullptr;
  std::vector<Slot> slots_;  // by process: of the frame that comes next
  std::vector<int> tags_;    // by process: of the last bytes sent there
  // By process: of the next frame; then those of movings_.
  std::vector<mpi::Request> requests_;
  std::vector<int> moving_of_;  // by request, from these on; -1: free
  std::vector<int> ended_;      // of a look
  std::vector<mpi::Status> statuses_;
  std::deque<Moving> movings_;
  std::vector<int> free_;  // of movings_
  mpi::Pauses pauses_;
  int64_t sleeps_until_ns_ = 0;  // the thread of the wires; 0: it looks
  struct {
    int64_t since_ns = 0;
    int64_t look_ns = 0;  // the last look
    int looks = 0;
  } idle_;  // the thread of the device that looks, or did last
  int64_t goodbye_ns_ = 0;
};

}  // namespace stringline
