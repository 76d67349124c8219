#include "stages/models/stage_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/layers.h"

namespace stringline {

ValueId StageBuilder::Receive() { return builder_.Input(Role::kInput, 0, Activation(), "x"); }

ForwardStage StageBuilder::Finish(bool first, bool last) && {
  for (const Port& port : beside_) builder_.Output(port.role, port.index, port.value);
  return {first, last, std::move(params_), builder_.Finish(), slice_};
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

ValueId StageBuilder::PositionsInDocuments() {
  if (in_documents_ == kNone) {
    in_documents_ = builder_.Input(Role::kPositions, 0, Tokens(), "positions");
  }
  return in_documents_;
}

ValueId StageBuilder::AddPositions(ValueId x, ValueId table) {
  if (!packed_)
    return builder_.Append(Op::kPositionAdd, {x, table}, {first_position()}, "position");
  const ValueId rows =
      builder_.Append(Op::kEmbedding, {PositionsInDocuments(), table}, {}, "position.rows");
  return builder_.Append(Op::kAdd, {x, rows}, {}, "position");
}

ValueId StageBuilder::Rotary(ValueId qkv, double heads, double kv_heads, double theta,
                             const std::string& name) {
  if (packed_) {
    return builder_.Append(Op::kPackedRotary, {qkv, PositionsInDocuments()},
                           {heads, kv_heads, theta, 1}, name);
  }
  return builder_.Append(Op::kRotary, {qkv}, {heads, kv_heads, theta, 1, first_position()}, name);
}

ValueId StageBuilder::Attention(ValueId qkv, double heads, double kv_heads,
                                const std::string& name) {
  const std::vector<double> attributes = {heads, kv_heads};
  if (packed_) {
    return builder_.AppendAll(Op::kPackedAttention, {qkv, PositionsInDocuments()}, attributes,
                              name)[0];
  }
  if (slice_.of == 1) return builder_.AppendAll(Op::kAttention, {qkv}, attributes, name)[0];
  const int layer = attention_layers_++;
  const double size =
      static_cast<double>(builder_.TypeOf(qkv).shape.back()) / (heads + 2 * kv_heads);
  const Type keys_of_slice = {dtype_,
                              {microbatch_, positions_, static_cast<int64_t>(2 * kv_heads * size)}};
  ValueId past = kNone;
  for (int k = 0; k < slice_.index; ++k) {
    const ValueId keys = builder_.Input(Role::kPast, layer * slice_.index + k, keys_of_slice,
                                        absl::StrCat(name, ".past.", k));
    past = past == kNone ? keys
                         : builder_.Append(Op::kAppendPositions, {past, keys}, {}, name + ".past");
  }
  if (!slice_.is_last()) {
    AddOutput(Role::kKeys, layer,
              builder_.Append(Op::kPackKeys, {qkv}, attributes, name + ".keys"));
  }
  if (past == kNone) return builder_.AppendAll(Op::kAttention, {qkv}, attributes, name)[0];
  return builder_.AppendAll(Op::kAttentionPast, {qkv, past}, attributes, name)[0];
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

absl::Status CheckSlices(int context, const BuildOptions& options) {
  const int slices = options.slices;
  if (options.packed && slices > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule cuts a sequence into ", slices,
                     " slices, and packed sequences are trained whole; a schedule without slices, "
                     "or data without 'packed', would help"));
  }
  if (slices >= 1 && context % slices == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the schedule cuts a sequence into ", slices,
                                                 " slices, and model.context is ", context,
                                                 " tokens: a multiple of ", slices, " would help"));
}

namespace {

// A stage's program, or that of one of its slices. `layer` is the first of its layers.
absl::StatusOr<StageProgram> ProgramOf(StageBuilder&& stage, bool first, bool last, int layer,
                                       int layers, const StageRecompute& recompute) {
  ValueId x = first ? stage.Embed() : stage.Receive();
  if (first) stage.Checkpoint(x);
  for (int i = 0; i < layers; ++i) {
    x = stage.Layer(x, layer + i);
    stage.Checkpoint(x);
  }
  if (last) {
    stage.Loss(x);
  } else {
    stage.Send(x);
  }
  return MakeStageProgram(std::move(stage).Finish(first, last), recompute);
}

}  // namespace

absl::StatusOr<std::vector<StageProgram>> BuildPrograms(
    int layers, const std::vector<int>& layers_per_stage, const BuildOptions& options,
    const std::function<std::unique_ptr<StageBuilder>(const SlicePlace& slice)>& make) {
  SL_RETURN_IF_ERROR(CheckLayers(layers, layers_per_stage));
  const RecomputePolicy& recompute = options.recompute;
  if (!recompute.by_stage.empty() && recompute.by_stage.size() != layers_per_stage.size()) {
    return absl::InvalidArgumentError(absl::StrCat("recompute: ", recompute.by_stage.size(),
                                                   " values for ", layers_per_stage.size(),
                                                   " stages"));
  }
  std::vector<StageProgram> programs;
  int layer = 0;
  for (size_t s = 0; s < layers_per_stage.size(); ++s) {
    const bool first = s == 0, last = s + 1 == layers_per_stage.size();
    for (int k = 0; k < options.slices; ++k) {
      SL_ASSIGN_OR_RETURN(StageProgram program,
                          ProgramOf(std::move(*make({k, options.slices})), first, last, layer,
                                    layers_per_stage[s], recompute.Of(s)));
      (k == 0 ? programs : programs.back().later_slices).push_back(std::move(program));
    }
    layer += layers_per_stage[s];
  }
  return programs;
}

}  // namespace stringline
