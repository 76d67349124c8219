// A list of parameters as a table in a GPU's memory, so that one launch processes all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cuda/declared_use.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/engine/device.h"
#include "executor/engine/optimizer.h"

namespace stringline::cuda {

class ParamList {
 public:
  // Uploads the tables; all memory is the device's.
  static absl::StatusOr<ParamList> Make(absl::Span<const ParamBlock> blocks, Device* device);

  // As Kernels::SumOfSquares and Kernels::Update.
  void SumOfSquares(const StreamRun& run, double* sums) const;
  void Update(const StreamRun& run, const UpdateStep& step) const;
  // The list's own memory that their launches use.
  std::vector<StringlineUse> UsesOfSums() const;
  std::vector<StringlineUse> UsesOfUpdate() const;

 private:
  struct Chunks {
    const ParamChunk* chunks = nullptr;
    int64_t count = 0;
  };
  static absl::StatusOr<Chunks> Upload(const std::vector<ParamChunk>& chunks, Device* device);

  int64_t params_count_ = 0;
  const UpdatedParam* params_ = nullptr;
  Chunks updated_;                  // all parameters updated by AdamW
  Chunks counted_;                  // all parameters that count in the norm
  const int32_t* first_ = nullptr;  // by parameter: its first counted chunk; and one more entry,
                                    // the end
  double* squares_ = nullptr;       // by counted chunk
  AdamWStep* step_ = nullptr;
  float* scale_ = nullptr;
  std::vector<ParamBlock> balanced_;
};

}  // namespace stringline::cuda
