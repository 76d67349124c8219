#include "executor/training/reference.h"

#include <algorithm>

#include "schedlang/base/sl_check.h"
#include "stages/init.h"

namespace stringline {

Reference::Reference(const StageProgram& model, uint64_t seed)
    : model_(model), state_(cpu::MakeState(model, seed)) {
  SL_CHECK(model.first && model.last) << "the oracle is the whole model";
  for (size_t p = 0; p < model.params.size(); ++p) {
    const Param& param = model.params[p];
    if (param.type.dtype == DType::kF32) {
      params_.push_back(state_.params[p]);
    } else {
      params_.push_back(cpu::MakeArray(GradTypeOf(param)));
      Initialize(param, seed, params_.back().f32());
    }
  }
  state_.inputs = {cpu::MakeArray(model.inputs[0].type)};
  state_.target = cpu::MakeArray(model.target);
  if (model.positions) state_.positions = cpu::MakeArray(*model.positions);
}

float Reference::RunMicrobatch(absl::Span<const int32_t> tokens, absl::Span<const int32_t> targets,
                               absl::Span<const int32_t> positions, const MaskKey& key) {
  SL_CHECK(static_cast<int64_t>(tokens.size()) == model_.inputs[0].type.elements())
      << tokens.size();
  SL_CHECK(static_cast<int64_t>(targets.size()) == model_.target.elements()) << targets.size();
  std::copy(tokens.begin(), tokens.end(), state_.inputs[0].i32());
  std::copy(targets.begin(), targets.end(), state_.target.i32());
  SL_CHECK(!model_.positions || positions.size() == tokens.size()) << positions.size();
  std::copy(positions.begin(), positions.end(), state_.positions.i32());
  if (model_.mask_key) state_.mask_key = cpu::MakeMaskKey(key);
  for (size_t p = 0; p < params_.size(); ++p) {
    if (state_.params[p].type != params_[p].type) {
      state_.params[p] = cpu::RoundedToBf16(params_[p]);
    }
  }
  cpu::Evaluate(model_.forward, &state_);
  cpu::Evaluate(model_.backward, &state_);
  return *state_.loss.f32();
}

absl::Span<const float> Reference::grad(int param) const {
  return {state_.param_grads[param].f32(),
          static_cast<size_t>(state_.param_grads[param].type.elements())};
}

absl::Span<float> Reference::param(int param) {
  return {params_[param].f32(), static_cast<size_t>(params_[param].type.elements())};
}

}  // namespace stringline
