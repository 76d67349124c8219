#include "executor/cuda/backend/cuda_backend.h"

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::Make(const CudaSettings& settings) {
  SL_ASSIGN_OR_RETURN(auto device,
                      CudaDevice::Make(settings.gpus, settings.ranks, settings.sms_per_rank));
  device->set_timeout_ns(settings.timeout_ns);
  SL_ASSIGN_OR_RETURN(auto kernels,
                      CudaKernels::Make(device.get(), {.deterministic = settings.deterministic}));
  return std::unique_ptr<Backend>(new CudaBackend(std::move(device), std::move(kernels), settings));
}

std::string CudaBackend::DescribePlaces() const {
  if (gpus_.size() == 1 && sms_per_rank_ == 0) return "";
  return absl::StrCat(cuda::DescribeBlocks(gpus_, ranks_),
                      sms_per_rank_ == 0 ? "" : absl::StrCat(", ", sms_per_rank_, " SMs each"));
}

}  // namespace stringline
