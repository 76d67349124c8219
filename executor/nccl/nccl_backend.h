// One rank of a run on a GPU; the others are processes of their own, here or on other hosts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/device.h"
#include "executor/nccl/nccl_groups.h"
#include "executor/processes/tcp_world.h"

namespace stringline {

class NcclBackend final : public Backend {
 public:
  // Takes the GPU with the number that the identity has on its host, or the only one, and joins the
  // other processes, which all do so; without a GPU or a library only to tell them. To the settings
  // that all must have alike it adds NCCL's version and what `nccl` says.
  //
  // NCCL_LAUNCH_ORDER_IMPLICIT stays as it is, which is off: nccl_groups.h says why.
  //
  // Errors are those of nccl::Library::Open, TcpWorld::Join, CudaDevice::Make, CudaKernels::Make
  // and NcclGroups::Make; what fails here is told to the others.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const TcpWorldSettings& world,
                                                       const NcclSettings& nccl);

  Device* device() override { return device_.get(); }
  Groups* groups() override { return groups_.get(); }
  Kernels* kernels() override { return kernels_.get(); }
  AvailableMemory available(int place) override { return device_->available(place); }
  World* world() override { return world_.get(); }

 private:
  absl::Status TakeGpu(int local);

  std::unique_ptr<World> world_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
  std::unique_ptr<NcclGroups> groups_;
};

}  // namespace stringline
