// The parts of a stage go into one graph, one behind the other. Stages are built in their order, so
// that the types of the values that a stage gets from others are known.
#include "stages/models/stage_builder.h"

#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/layers.h"

namespace stringline {

ForwardStage StageBuilder::Finish(bool first, bool last) && {
  for (const Port& port : beside_) builder_.Output(port.role, port.index, port.value);
  stage_.first = first;
  stage_.last = last;
  stage_.graph = builder_.Finish();
  return std::move(stage_);
}

ValueId StageBuilder::AddParam(Param param) {
  const int index = static_cast<int>(stage_.params.size());
  stage_.params.push_back(std::move(param));
  return builder_.Input(Role::kParam, index, stage_.params.back().type, stage_.params.back().name);
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
  if (stage_.slice.of == 1) return builder_.AppendAll(Op::kAttention, {qkv}, attributes, name)[0];
  const int layer = attention_layers_++;
  const double size =
      static_cast<double>(builder_.TypeOf(qkv).shape.back()) / (heads + 2 * kv_heads);
  const Type keys_of_slice = {dtype_,
                              {microbatch_, positions_, static_cast<int64_t>(2 * kv_heads * size)}};
  ValueId past = kNone;
  for (int k = 0; k < stage_.slice.index; ++k) {
    const ValueId keys = builder_.Input(Role::kPast, layer * stage_.slice.index + k, keys_of_slice,
                                        absl::StrCat(name, ".past.", k));
    past = past == kNone ? keys
                         : builder_.Append(Op::kAppendPositions, {past, keys}, {}, name + ".past");
  }
  if (!stage_.slice.is_last()) {
    AddOutput(Role::kKeys, layer,
              builder_.Append(Op::kPackKeys, {qkv}, attributes, name + ".keys"));
  }
  if (past == kNone) return builder_.AppendAll(Op::kAttention, {qkv}, attributes, name)[0];
  return builder_.AppendAll(Op::kAttentionPast, {qkv, past}, attributes, name)[0];
}

ValueId StageBuilder::EmbedTokens(int64_t vocabulary, float stddev, int64_t first,
                                  const std::string& name) {
  const ValueId tokens = TakeTokens(first);
  const ValueId table = Matrix(name + "embedding.weight", vocabulary, width_, stddev);
  return builder_.Append(Op::kEmbedding, {tokens, table}, {}, name + "embedding");
}

void StageBuilder::HeadLoss(ValueId x, int64_t vocabulary, float stddev, bool tied) {
  const ValueId head = Matrix("head.weight", vocabulary, width_, stddev);
  stage_.params.back().eager = true;  // its gradient needs the logits' gradient, too large to stash
  if (tied) stage_.params.back().tied_to = "embedding.weight";
  const ValueId logits = builder_.Append(Op::kLinear, {x, head}, {}, "logits");
  const ValueId target = builder_.Input(Role::kTarget, 0, Tokens(), "target");
  builder_.Output(Role::kLoss, 0,
                  builder_.AppendAll(Op::kCrossEntropy, {logits, target}, {}, "loss")[0]);
}

void LayeredStage::Part(int part) {
  if (part == 0) {
    Carry(0, Embed());
  } else if (part <= layers_) {
    Carry(part, Layer(Carried(part - 1), part - 1));
  } else {
    Loss(Carried(layers_));
  }
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

// By part of the model: its stage.
std::vector<int> StageOfEachPart(const std::vector<int>& layers_per_stage) {
  std::vector<int> stage_of = {0};
  for (size_t s = 0; s < layers_per_stage.size(); ++s) {
    stage_of.insert(stage_of.end(), layers_per_stage[s], static_cast<int>(s));
  }
  stage_of.push_back(static_cast<int>(layers_per_stage.size()) - 1);
  return stage_of;
}

// Builds the stages of a model, or of one slice of its sequences, in their order.
class StagesInOrder {
 public:
  StagesInOrder(const std::vector<PartValue>& values, const std::vector<int>& stage_of,
                const std::vector<StageRoutes>& routes)
      : values_(values), stage_of_(stage_of), routes_(routes) {}

  absl::StatusOr<StageProgram> Next(StageBuilder&& builder, const StageRecompute& recompute) {
    const int stage = next_stage_++, parts = static_cast<int>(stage_of_.size());
    const StageRoutes& routes = routes_[stage];
    const bool first = stage_of_.front() == stage, last = stage_of_.back() == stage;
    for (const auto& [id, edge] : routes.in) builder.Receive(id, types_.at(id), edge);
    for (; next_part_ < parts && stage_of_[next_part_] == stage; ++next_part_) {
      builder.Part(next_part_);
      KeepMade(&builder);
    }
    for (const auto& [id, edge] : routes.out) builder.Send(id, edge);
    return MakeStageProgram(std::move(builder).Finish(first, last), recompute);
  }

 private:
  // Notes the types of the values that the part has made.
  void KeepMade(StageBuilder* builder) {
    for (; next_value_ < values_.size() && values_[next_value_].made_in == next_part_;
         ++next_value_) {
      const int id = values_[next_value_].id;
      const Type& type = types_[id] = builder->TypeOf(id);
      if (IsFloat(type.dtype)) builder->Checkpoint(id);
    }
  }

  const std::vector<PartValue>& values_;
  const std::vector<int>& stage_of_;
  const std::vector<StageRoutes>& routes_;
  std::unordered_map<int, Type> types_;  // by PartValue::id
  int next_stage_ = 0, next_part_ = 0;
  size_t next_value_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<StageProgram>> BuildPrograms(
    int layers, const std::vector<int>& layers_per_stage, const BuildOptions& options,
    const std::vector<PartValue>& values,
    const std::function<std::unique_ptr<StageBuilder>(const SlicePlace& slice)>& make) {
  SL_RETURN_IF_ERROR(CheckLayers(layers, layers_per_stage));
  const RecomputePolicy& recompute = options.recompute;
  const int stages = static_cast<int>(layers_per_stage.size());
  if (!recompute.by_stage.empty() && recompute.by_stage.size() != layers_per_stage.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute: ", recompute.by_stage.size(), " values for ", stages, " stages"));
  }
  const std::vector<int> stage_of = StageOfEachPart(layers_per_stage);
  SL_ASSIGN_OR_RETURN(const std::vector<StageRoutes> routes,
                      RouteValues(values, stage_of, stages, options.edges));
  std::vector<StageProgram> programs;
  for (int k = 0; k < options.slices; ++k) {
    StagesInOrder of_slice(values, stage_of, routes);
    for (int s = 0; s < stages; ++s) {
      SL_ASSIGN_OR_RETURN(StageProgram program,
                          of_slice.Next(std::move(*make({k, options.slices})), recompute.Of(s)));
      (k == 0 ? programs : programs[s].later_slices).push_back(std::move(program));
    }
  }
  return programs;
}

}  // namespace stringline
