#include "executor/nccl/nccl_backend.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Backend>> NcclBackend::Make(const TcpWorldSettings& world,
                                                           const NcclSettings& nccl) {
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  SL_ASSIGN_OR_RETURN(const nccl::Library library, nccl::Library::Open());
  TcpWorldSettings joined = world;
  joined.config.emplace_back("NCCL", library.Version());
  joined.config.emplace_back("nccl.sums", nccl.sums == NcclSums::kOrdered ? "ordered" : "nccl");
  joined.config.emplace_back("nccl.rows", nccl.rows == NcclRows::kPadded ? "padded" : "counted");
  joined.config.emplace_back("nccl.workspace_bytes", absl::StrCat(nccl.workspace_bytes));
  SL_ASSIGN_OR_RETURN(auto made, TcpWorld::Join(joined));
  std::unique_ptr<NcclBackend> backend(new NcclBackend(std::move(made)));
  const absl::Status status = backend->Start(world.identity.local, library, nccl);
  if (!status.ok()) {
    backend->world_->Fail(status);
    return status;
  }
  return std::unique_ptr<Backend>(std::move(backend));
}

absl::Status NcclBackend::Start(int local, const nccl::Library& library, const NcclSettings& nccl) {
  int gpus = 0;
  // What is wrong, the device says.
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) (void)cudaGetLastError();
  SL_ASSIGN_OR_RETURN(device_, CudaDevice::Make(gpus == 1 ? 0 : local));
  SL_ASSIGN_OR_RETURN(kernels_, CudaKernels::Make(device_.get()));
  SL_ASSIGN_OR_RETURN(groups_, NcclGroups::Make(device_.get(), world_.get(), library, nccl));
  return absl::OkStatus();
}

}  // namespace stringline
