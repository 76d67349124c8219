// The frames of messages (processes/wires.h) over MPI instead of TCP: what meets, what differs, who
// is late and whose fault it is are the same.
//
// A frame is a message of MPI: its header, and behind it up to kMostInline bytes. Longer ones come
// as a message of their own, out of the sender's memory straight into the receiver's: the receiver
// was ready before, so that MPI buffers nothing. Of one process's frames, the next is taken when
// all bytes of the one before have come.
//
// MPI has no call that sleeps until something comes, and several threads may wait: one thread looks
// at MPI all the time while messages come, and in longer and longer pauses when none do (pauses.h).
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

class MpiWires final : public Wires, private FrameCarrier {
 public:
  MpiWires(CpuDevice* device, World* world, const WireSettings& settings,
           std::shared_ptr<mpi::Session> session)
      : Wires(device, world, settings), session_(std::move(session)) {}
  ~MpiWires() override;

 private:
  static constexpr int64_t kMostInline = 3072;
  static constexpr int64_t kSlotBytes = sizeof(WireHeader) + kMostInline;
  using Slot = std::unique_ptr<char[]>;

  // A frame under way to another process.
  struct Sending {
    Slot slot;         // header and inline bytes
    std::string text;  // longer than a slot holds
    int waiting = -1;  // done when the bytes are sent
    int left = 0;      // requests
  };

  absl::Status ConnectPeers() override;
  absl::Status Open();
  void Loop() override;
  void Carry(int process, Outgoing frame) override;

  // With the lock of the wires held.
  bool Look();
  void Ended(int request, const mpi::Status& status);
  void TakeFrame(int process, int64_t bytes);
  void TakeBytes(int process);
  void EndTaking(int process);
  void Listen(int process);
  void EndSend(int request);
  int NewSending();
  mpi::Request* NewRequest(int sending);
  bool Leaves();
  void LeaveRest();
  // False if a call of MPI failed, which fails the run.
  bool Succeeded(int result, const char* function);

  const std::shared_ptr<mpi::Session> session_;
  mpi::Comm comm_ = nullptr;
  std::vector<Slot> slots_;       // by process: of the frame that comes next
  std::vector<int64_t> to_come_;  // by process: bytes of the frame under way
  // By process: of the next frame; then, by process, of the bytes under way; then those of sends.
  std::vector<mpi::Request> requests_;
  std::vector<int> sending_of_;  // by request, from the sends on; -1: free
  std::vector<int> ended_;       // of a look
  std::vector<mpi::Status> statuses_;
  std::deque<Sending> sendings_;
  std::vector<int> free_;  // of sendings_
  mpi::Pauses pauses_;
  bool sleeps_ = false;
  int64_t goodbye_ns_ = 0;
};

}  // namespace stringline
