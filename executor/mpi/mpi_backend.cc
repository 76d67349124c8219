#include "executor/mpi/mpi_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/mpi/mpi_wires.h"
#include "executor/mpi/mpi_world.h"
#include "executor/processes/backend.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status CanUseMpi(const Identity& identity) {
  if (identity.knows_mpi) return mpi::Library::Open().status();
  return absl::FailedPreconditionError(
      absl::StrCat("MPI does not know the processes of ", identity.source,
                   ": mpirun and srun --mpi=pmix start some that it knows"));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeMpiBackend(const TcpWorldSettings& world,
                                                        const WireSettings& wires, int threads) {
  std::shared_ptr<mpi::Session> session;
  const auto join =
      [&](const TcpWorldSettings& settings) -> absl::StatusOr<std::unique_ptr<World>> {
    SL_ASSIGN_OR_RETURN(auto there, MpiWorld::Join(settings));
    session = there->session();
    return std::unique_ptr<World>(std::move(there));
  };
  const auto new_wires = [&](CpuDevice* device, World* there) {
    return std::make_unique<MpiWires>(device, there, wires, session);
  };
  return ProcessesBackend::MakeOver(world, threads, join, new_wires);
}

}  // namespace stringline
