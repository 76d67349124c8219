#include "executor/cuda/opened_gpus.h"

#include <utility>

#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

// Descending, so that the first GPU is current at the end: objects made without a rank belong to
// it.
absl::StatusOr<std::unique_ptr<OpenedGpus>> OpenedGpus::Make(absl::Span<const int> ordinals,
                                                             int ranks, int sms_per_rank) {
  SL_ASSIGN_OR_RETURN(Reach reach, OpenGpus(ordinals));
  std::unique_ptr<OpenedGpus> gpus(new OpenedGpus(ordinals, ranks, sms_per_rank, std::move(reach)));
  for (int place = gpus->count() - 1; place >= 0; --place) {
    SL_RETURN_IF_ERROR(gpus->Enter(place));
    SL_RETURN_IF_ERROR(gpus->Start(place));
  }
  return gpus;
}

OpenedGpus::OpenedGpus(absl::Span<const int> ordinals, int ranks, int sms_per_rank, Reach reach)
    : reach_(std::move(reach)), ranks_(ranks), sms_per_rank_(sms_per_rank) {
  for (const int ordinal : ordinals) gpus_.emplace_back().ordinal = ordinal;
}

absl::Status OpenedGpus::Start(int place) {
  Gpu* const gpu = &gpus_[place];
  SL_RETURN_IF_ERROR(
      Checked(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_),
              "cudaDeviceGetStreamPriorityRange"));
  SL_RETURN_IF_ERROR(
      Checked(cudaStreamCreateWithPriority(&gpu->own, cudaStreamNonBlocking, greatest_priority_),
              "cudaStreamCreateWithPriority"));
  SL_RETURN_IF_ERROR(Checked(cudaEventCreateWithFlags(&gpu->order, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags"));
  SL_RETURN_IF_ERROR(
      Checked(cudaEventCreateWithFlags(&gpu->base, cudaEventDefault), "cudaEventCreateWithFlags"));
  if (sms_per_rank_ == 0) return absl::OkStatus();
  const int here =
      FirstRankOfGpu(place + 1, ranks_, count()) - FirstRankOfGpu(place, ranks_, count());
  SL_ASSIGN_OR_RETURN(gpu->groups, SmGroups::Make(gpu->ordinal, here, sms_per_rank_));
  return absl::OkStatus();
}

// Errors are ignored.
OpenedGpus::~OpenedGpus() {
  for (const Gpu& gpu : gpus_) {
    if (gpu.own != nullptr) (void)cudaStreamDestroy(gpu.own);
    if (gpu.order != nullptr) (void)cudaEventDestroy(gpu.order);
    if (gpu.base != nullptr) (void)cudaEventDestroy(gpu.base);
  }
  if (!gpus_.empty()) (void)cudaGetLastError();
}

void OpenedGpus::Abandon() {
  for (const Gpu& gpu : gpus_) {
    if (gpu.groups != nullptr) gpu.groups->Abandon();
  }
  gpus_.clear();
}

// CUDA is asked each time, as other code of this thread, another device perhaps, may have changed
// the current GPU. The question costs less than a tenth of a launch.
absl::Status OpenedGpus::Enter(int place) {
  int now = -1;
  SL_RETURN_IF_ERROR(Checked(cudaGetDevice(&now), "cudaGetDevice"));
  current_ = place;
  if (now == gpus_[place].ordinal) return absl::OkStatus();
  return Checked(cudaSetDevice(gpus_[place].ordinal), "cudaSetDevice");
}

}  // namespace stringline::cuda
