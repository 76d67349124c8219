#include "executor/mpi/mpi_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/kernel.h"
#include "executor/mpi/mpi_wires.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status CanUseMpi(const Identity& identity) {
  if (identity.knows_mpi) return mpi::Library::Open().status();
  return absl::FailedPreconditionError(
      absl::StrCat("MPI does not know the processes of ", identity.source,
                   ": mpirun and srun --mpi=pmix start some that it knows"));
}

absl::StatusOr<std::unique_ptr<Backend>> MpiBackend::Make(const TcpWorldSettings& world,
                                                          const WireSettings& wires, int threads) {
  auto backend = std::make_unique<MpiBackend>();
  cpu::PrepareThread();
  auto device = CpuDevice::Make(threads, cpu::PrepareThread);
  TcpWorldSettings joined = world;
  joined.trouble.Update(device.status());
  SL_ASSIGN_OR_RETURN(auto there, MpiWorld::Join(joined));
  backend->device_ = *std::move(device);
  backend->groups_ = std::make_unique<ProcessGroups>(
      backend->device_.get(),
      std::make_unique<MpiWires>(backend->device_.get(), there.get(), wires, there->session()));
  backend->world_ = std::move(there);
  return std::unique_ptr<Backend>(std::move(backend));
}

Kernels* MpiBackend::kernels() { return CpuKernels(); }

}  // namespace stringline
