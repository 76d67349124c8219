#include "executor/nccl/nccl_backend.h"

#include "absl/strings/str_cat.h"
#include "executor/cuda/gpus.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Backend>> NcclBackend::Make(const TcpWorldSettings& world,
                                                           const NcclSettings& nccl,
                                                           const CudaKernelSettings& kernels) {
  std::unique_ptr<NcclBackend> backend(new NcclBackend);
  const absl::StatusOr<nccl::Library> library = nccl::Library::Open();
  TcpWorldSettings joined = world;
  joined.trouble.Update(library.status());
  CudaKernelSettings loaded = kernels;
  loaded.load = true;
  joined.trouble.Update(backend->TakeGpu(world.identity.local, loaded));
  if (backend->device_ != nullptr) backend->device_->set_stream_launches(nccl.stream_launches);
  if (library.ok()) joined.config.emplace_back("NCCL", library->Version());
  joined.config.emplace_back("nccl.sums", nccl.sums == NcclSums::kOrdered ? "ordered" : "nccl");
  joined.config.emplace_back("nccl.rows", nccl.rows == NcclRows::kPadded ? "padded" : "counted");
  joined.config.emplace_back("nccl.free_sms", absl::StrCat(kernels.free_sms));
  joined.config.emplace_back("nccl.workspace_bytes", absl::StrCat(nccl.workspace_bytes));
  SL_ASSIGN_OR_RETURN(backend->world_, TcpWorld::Join(joined));
  auto groups = NcclGroups::Make(backend->device_.get(), backend->world_.get(), *library, nccl);
  if (!groups.ok()) {
    backend->world_->Fail(groups.status());
    return groups.status();
  }
  backend->groups_ = *std::move(groups);
  return std::unique_ptr<Backend>(std::move(backend));
}

absl::Status NcclBackend::TakeGpu(int local, const CudaKernelSettings& kernels) {
  SL_ASSIGN_OR_RETURN(const int gpus, cuda::CountGpus());
  SL_ASSIGN_OR_RETURN(device_, CudaDevice::Make(gpus == 1 ? 0 : local));
  SL_ASSIGN_OR_RETURN(kernels_, CudaKernels::Make(device_.get(), kernels));
  return absl::OkStatus();
}

}  // namespace stringline
