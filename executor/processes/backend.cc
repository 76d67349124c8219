#include "executor/processes/backend.h"

#include <utility>

#include "executor/cpu/backend.h"
#include "executor/cpu/kernel.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Backend>> ProcessesBackend::Make(const TcpWorldSettings& world,
                                                                const WireSettings& wires,
                                                                int threads) {
  WireSettings proven = wires;
  proven.proof = {world.identity.secret, world.identity.nonce};
  return MakeOver(world, threads, TcpWorld::Join, [&proven](CpuDevice* device, World* there) {
    return std::make_unique<Wires>(device, there, proven);
  });
}

absl::StatusOr<std::unique_ptr<Backend>> ProcessesBackend::MakeOver(const TcpWorldSettings& world,
                                                                    int threads, JoinWorld join,
                                                                    NewWires wires) {
  auto backend = std::make_unique<ProcessesBackend>();
  cpu::PrepareThread();
  auto device = CpuDevice::Make(threads, cpu::PrepareThread);
  TcpWorldSettings joined = world;
  joined.trouble.Update(device.status());
  SL_ASSIGN_OR_RETURN(auto there, join(joined));
  backend->device_ = *std::move(device);
  backend->groups_ = std::make_unique<ProcessGroups>(backend->device_.get(),
                                                     wires(backend->device_.get(), there.get()));
  backend->world_ = std::move(there);
  return std::unique_ptr<Backend>(std::move(backend));
}

Kernels* ProcessesBackend::kernels() { return CpuKernels(); }

}  // namespace stringline
