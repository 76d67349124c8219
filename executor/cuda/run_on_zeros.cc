#include "executor/cuda/run_on_zeros.h"

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"

namespace stringline::cuda {
namespace {

constexpr int64_t kAlignment = 256;

// Zeroed memory and a stream, until the end of the object.
struct Scratch {
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
    if (memory != nullptr) (void)cudaFree(memory);
  }
  cudaError_t Make(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (const cudaError_t error = cudaMalloc(&memory, size); error != cudaSuccess) return error;
    if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        error != cudaSuccess) {
      return error;
    }
    return cudaMemsetAsync(memory, 0, size, stream);
  }

  void* memory = nullptr;
  cudaStream_t stream = nullptr;
};

}  // namespace

absl::Status RunOnZeros(
    const std::vector<int64_t>& sizes,
    absl::FunctionRef<absl::Status(absl::Span<char* const> at, cudaStream_t stream)> run) {
  std::vector<int64_t> offsets;
  int64_t all = 0;
  for (const int64_t size : sizes) {
    offsets.push_back(all);
    all += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  Scratch scratch;
  const cudaError_t made = scratch.Make(all + kAlignment);
  if (made == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", all, " bytes of memory for a first run"));
  }
  if (made != cudaSuccess) return absl::InternalError(ErrorText(made));
  std::vector<char*> at;
  for (const int64_t offset : offsets) at.push_back(static_cast<char*>(scratch.memory) + offset);
  absl::Status status = run(at, scratch.stream);
  const cudaError_t ended = cudaStreamSynchronize(scratch.stream);
  if (status.ok() && ended != cudaSuccess) status = absl::InternalError(ErrorText(ended));
  return status;
}

}  // namespace stringline::cuda
