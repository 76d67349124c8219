// The GPUs of a device, opened: for each a stream of its own for work outside steps, and events for
// order between streams and for the time; and the GPU that is current for the thread that issues.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/sm_groups.h"

namespace stringline::cuda {

class OpenedGpus {
 public:
  // For `ranks` ranks of the mesh, in blocks (gpus.h). Errors are those of OpenGpus. If
  // `sms_per_rank` is not 0, each rank has a group of that number of multiprocessors; errors are
  // then those of SmGroups::Make too.
  static absl::StatusOr<std::unique_ptr<OpenedGpus>> Make(absl::Span<const int> ordinals, int ranks,
                                                          int sms_per_rank);
  ~OpenedGpus();
  OpenedGpus(const OpenedGpus&) = delete;
  OpenedGpus& operator=(const OpenedGpus&) = delete;

  int count() const { return static_cast<int>(gpus_.size()); }
  int ordinal(int place) const { return gpus_[place].ordinal; }
  // The first GPU's also for captured steps.
  cudaStream_t own(int place) const { return gpus_[place].own; }
  cudaEvent_t order(int place) const { return gpus_[place].order; }
  // The event from which times are counted.
  cudaEvent_t base(int place) const { return gpus_[place].base; }
  // Null unless ranks have multiprocessors of their own.
  const SmGroups* groups(int place) const { return gpus_[place].groups.get(); }
  int sms_per_rank() const { return sms_per_rank_; }
  // True if kernels on `place` may use memory at `other`.
  bool Reaches(int place, int other) const { return reach_[place][other]; }
  int PlaceOfRank(int rank) const { return count() == 1 ? 0 : GpuOfRank(rank, ranks_, count()); }
  // A rank's group among those of its GPU.
  int GroupOfRank(int rank, int place) const {
    return rank - FirstRankOfGpu(place, ranks_, count());
  }
  int least_priority() const { return least_priority_; }
  int greatest_priority() const { return greatest_priority_; }

  // Makes a place's GPU current for this thread.
  absl::Status Enter(int place);
  // The place entered last.
  int current() const { return current_; }
  // Leaks all objects of CUDA, since the GPUs hang.
  void Abandon();

 private:
  struct Gpu {
    int ordinal = 0;
    cudaStream_t own = nullptr;
    cudaEvent_t order = nullptr;
    cudaEvent_t base = nullptr;
    std::unique_ptr<SmGroups> groups;
  };
  OpenedGpus(absl::Span<const int> ordinals, int ranks, int sms_per_rank, Reach reach);
  absl::Status Start(int place);

  std::vector<Gpu> gpus_;
  const Reach reach_;
  const int ranks_;
  const int sms_per_rank_;
  int current_ = -1;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
};

}  // namespace stringline::cuda
