// A World over MPI: mpirun, or srun with PMIx, has made the processes known to each other, so that
// nothing listens and nothing needs a secret; who may come is the cluster's business.
//
// The parts that processes give, and the results, travel by the tree of processes (tree_world.h),
// in messages of MPI between neighbours. MPI does not tell of a process that died: mpirun ends all
// others, and where nobody does, the deadline ends the run.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "executor/mpi/mpi_session.h"
#include "executor/mpi/pauses.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/tree_world.h"

namespace stringline {

class MpiWorld final : public TreeWorld {
 public:
  // Returns when all processes have come. Of the settings of a world over TCP the address and the
  // secret are not used.
  //   settings.trouble    of this process
  //   Aborted             trouble of another process, with its name before the message
  //   InvalidArgument     processes differ in their settings, or MPI numbers them otherwise than
  //                       the identity does
  //   others              as mpi::Session::Open
  static absl::StatusOr<std::unique_ptr<MpiWorld>> Join(const TcpWorldSettings& settings);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  const std::shared_ptr<mpi::Session>& session() const { return session_; }

 private:
  // A message under way. Texts may be longer than MPI's messages: they are sent in parts.
  struct Message {
    int peer = -1, tag = 0;
    std::string bytes;
    mpi::Request request = nullptr;
  };

  MpiWorld(const TcpWorldSettings& settings, std::shared_ptr<mpi::Session> session);
  absl::Status CompareHellos();

  void Send(int process, FrameKind kind, absl::string_view bytes) override;
  bool HasUnsent(int process) const override;
  // Takes what has come, and lets what is under way go on; MPI has no wait for both.
  void Look(int64_t most_ns) override;
  void BeginsToWait() override { pauses_.Restart(); }
  // True if something came.
  bool Progress();
  // False if a call of MPI failed, which fails the run.
  bool Succeeded(int result, const char* function);

  const TcpWorldSettings settings_;
  const std::shared_ptr<mpi::Session> session_;
  mpi::Comm comm_ = nullptr;
  std::deque<Message> sent_, coming_;
  std::map<int, std::string> parts_;  // of texts under way, by process
  mpi::Pauses pauses_;
};

}  // namespace stringline
