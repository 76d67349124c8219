#include "tools/choose_backend.h"

#include "absl/strings/str_cat.h"
#ifdef STRINGLINE_HAS_CUDA
#include "executor/cuda/cuda_backend.h"
#endif

namespace stringline {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const RunConfig& config) {
  if (config.device == DeviceKind::kCpu) return std::unique_ptr<Backend>();
#ifdef STRINGLINE_HAS_CUDA
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      CudaBackend::Make({.timeout_ns = config.timeout_ns, .link = config.link});
  if (backend.ok()) return backend;
  return absl::Status(backend.status().code(),
                      absl::StrCat("device: cuda: ", backend.status().message()));
#else
  return absl::UnavailableError(
      "device: cuda: this stringline was built without CUDA (-DSTRINGLINE_CUDA=ON needs nvcc and "
      "the headers of CUDA 13)");
#endif
}

}  // namespace stringline
