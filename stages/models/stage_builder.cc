#include "stages/models/stage_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/layers.h"

namespace stringline {

ValueId StageBuilder::Receive() { return builder_.Input(Role::kInput, 0, Activation(), "x"); }

ForwardStage StageBuilder::Finish(bool first, bool last) && {
  for (const Port& port : beside_) builder_.Output(port.role, port.index, port.value);
  return {first, last, std::move(params_), builder_.Finish()};
}

ValueId StageBuilder::AddParam(Param param) {
  const int index = static_cast<int>(params_.size());
  params_.push_back(std::move(param));
  return builder_.Input(Role::kParam, index, params_.back().type, params_.back().name);
}

ValueId StageBuilder::Matrix(const std::string& name, Type type, float stddev) {
  Param param{name, std::move(type)};
  param.init = Init::kNormal;
  param.stddev = stddev;
  param.decay = true;
  return AddParam(std::move(param));
}

ValueId StageBuilder::Bias(const std::string& name, int64_t size) {
  return AddParam({name, {dtype_, {size}}});
}

ValueId StageBuilder::Vector(const std::string& name, int64_t size, Init init) {
  Param param{name, {DType::kF32, {size}}};
  param.init = init;
  return AddParam(std::move(param));
}

ValueId StageBuilder::EmbedTokens(int64_t vocabulary, float stddev) {
  const ValueId tokens = builder_.Input(Role::kInput, 0, Tokens(), "tokens");
  const ValueId table = Matrix("embedding.weight", vocabulary, width_, stddev);
  return builder_.Append(Op::kEmbedding, {tokens, table}, {}, "embedding");
}

void StageBuilder::HeadLoss(ValueId x, int64_t vocabulary, float stddev, bool tied) {
  const ValueId head = Matrix("head.weight", vocabulary, width_, stddev);
  params_.back().eager = true;  // its gradient needs the logits' gradient, too large to stash
  if (tied) params_.back().tied_to = "embedding.weight";
  const ValueId logits = builder_.Append(Op::kLinear, {x, head}, {}, "logits");
  const ValueId target = builder_.Input(Role::kTarget, 0, Tokens(), "target");
  builder_.Output(Role::kLoss, 0,
                  builder_.AppendAll(Op::kCrossEntropy, {logits, target}, {}, "loss")[0]);
}

absl::Status CheckNotShared(int expert_ranks) {
  if (expert_ranks == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a model without experts, and ", expert_ranks, " ranks that share them out"));
}

absl::StatusOr<std::vector<StageProgram>> BuildPrograms(
    int layers, const std::vector<int>& layers_per_stage, const RecomputePolicy& recompute,
    const std::function<std::unique_ptr<StageBuilder>()>& make) {
  SL_RETURN_IF_ERROR(CheckLayers(layers, layers_per_stage));
  if (!recompute.by_stage.empty() && recompute.by_stage.size() != layers_per_stage.size()) {
    return absl::InvalidArgumentError(absl::StrCat("recompute: ", recompute.by_stage.size(),
                                                   " values for ", layers_per_stage.size(),
                                                   " stages"));
  }
  std::vector<StageProgram> programs;
  int layer = 0;
  for (size_t s = 0; s < layers_per_stage.size(); ++s) {
    const bool first = s == 0, last = s + 1 == layers_per_stage.size();
    const std::unique_ptr<StageBuilder> stage = make();
    ValueId x = first ? stage->Embed() : stage->Receive();
    if (first) stage->Checkpoint(x);
    for (int i = 0; i < layers_per_stage[s]; ++i) {
      x = stage->Layer(x, layer++);
      stage->Checkpoint(x);
    }
    if (last) {
      stage->Loss(x);
    } else {
      stage->Send(x);
    }
    SL_ASSIGN_OR_RETURN(StageProgram program,
                        MakeStageProgram(std::move(*stage).Finish(first, last), recompute.Of(s)));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace stringline
