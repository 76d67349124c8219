// A backend of one rank on a GPU; the other ranks are processes of their own, here or on other
// hosts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/backend/cuda_kernels.h"
#include "executor/cuda/device.h"
#include "executor/engine/backend.h"
#include "executor/nccl/nccl_groups.h"
#include "executor/processes/tcp_world.h"

namespace stringline {

class NcclBackend final : public Backend {
 public:
  // Opens the GPU with the identity's number on its host, or the only GPU, and joins the other
  // processes, which all do the same; after a failure it joins only to report it. Adds NCCL's
  // version and the settings in `nccl` to those that must be equal on all processes.
  //
  // NCCL_LAUNCH_ORDER_IMPLICIT keeps its default, off: nccl_groups.h says why.
  //
  // Errors are those of nccl::Library::Open, TcpWorld::Join, CudaDevice::Make, CudaKernels::Make
  // and NcclGroups::Make; a failure here is reported to the others.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const TcpWorldSettings& world,
                                                       const NcclSettings& nccl,
                                                       const CudaKernelSettings& kernels = {});

  Device* device() override { return device_.get(); }
  Groups* groups() override { return groups_.get(); }
  Kernels* kernels() override { return kernels_.get(); }
  AvailableMemory available(int place) override { return device_->available(place); }
  World* world() override { return world_.get(); }

 private:
  absl::Status TakeGpu(int local, const CudaKernelSettings& kernels);

  std::unique_ptr<World> world_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
  std::unique_ptr<NcclGroups> groups_;
};

}  // namespace stringline
