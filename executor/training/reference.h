// The oracle: the whole model as one stage, without a pipeline. A plain loop over the microbatches,
// with the same graphs and the same kernels, so a pipeline whose weight gradients run in microbatch
// order must agree with it in every bit.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "executor/cpu/evaluate.h"
#include "stages/stage_program.h"

namespace stringline {

class Reference {
 public:
  // `model` is the first and the last stage in one, and outlives the object. Parameters get their
  // first values from `seed`.
  Reference(const StageProgram& model, uint64_t seed);

  // Forward and backward of one microbatch; gradients are added up. Returns the loss. `positions`:
  // of packed sequences; `key`: of dropout.
  float RunMicrobatch(absl::Span<const int32_t> tokens, absl::Span<const int32_t> targets,
                      absl::Span<const int32_t> positions = {}, const MaskKey& key = {});

  absl::Span<const float> grad(int param) const;
  // Parameters to set and to read: F32, also of those that the graphs read rounded to BF16.
  absl::Span<float> param(int param);

 private:
  const StageProgram& model_;
  cpu::StageState state_;
  std::vector<cpu::Array> params_;  // in F32 those of the state
};

}  // namespace stringline
