#include "executor/torch_model/raised_nodes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/torch_model/raised_layers.h"
#include "executor/torch_model/torch_effects.h"
#include "executor/torch_model/torch_loss.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline {

RaisedNodes::RaisedNodes(const TorchProgram& program, const Pt2Archive& archive)
    : archive_(archive),
      constants_(program, archive),
      graph_(program, &constants_),
      params_(graph_, archive, &builder_) {}

bool RaisedNodes::FindTokens() {
  const std::vector<std::string>& inputs = graph_.program().inputs;
  for (const TorchNode& node : graph_.program().nodes) {
    if (node.op != "embedding") continue;
    input_ = graph_.Strip(node.Tensor("indices"));
    if (std::count(inputs.begin(), inputs.end(), input_) == 0) continue;
    if (graph_.Sizes(input_).size() != 2) break;
    sequences_ = {DType::kI32, graph_.Sizes(input_)};
    input_value_ = builder_.Input(Role::kInput, 0, sequences_, "tokens");
    return true;
  }
  return false;
}

// A program without an embedding of an input takes a tensor of F32 numbers: each of its sequences
// comes as the bits of its numbers.
absl::Status RaisedNodes::FindNumbers() {
  std::vector<std::string> found;
  for (const std::string& input : graph_.program().inputs) {
    if (IsFloat(graph_.program().values.at(input).type)) found.push_back(input);
  }
  if (found.size() != 1 || graph_.Sizes(found[0]).size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the program has no input of token numbers, of two dimensions, for an embedding, and ",
        found.empty() ? "no other input of numbers"
        : found.size() == 1
            ? "its input of numbers has no two dimensions"
            : absl::StrCat("several inputs of numbers, '", absl::StrJoin(found, "' and '"), "'")));
  }
  input_ = found[0];
  const std::vector<int64_t>& sizes = graph_.Sizes(input_);
  sample_.assign(sizes.begin() + 1, sizes.end());
  int64_t numbers = 1;
  for (const int64_t size : sample_) numbers *= size;
  sequences_ = {DType::kI32, {sizes[0], numbers}};
  const ValueId bits = builder_.Input(Role::kInput, 0, sequences_, "numbers");
  SL_ASSIGN_OR_RETURN(input_value_, Append({}, Op::kFloatOfBits, {bits}));
  if (sizes.size() == 2) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(input_value_,
                      Append({}, Op::kReshape, {input_value_}, {sizes.begin(), sizes.end()}));
  return absl::OkStatus();
}

absl::StatusOr<std::string> RaisedNodes::Begin(bool any) {
  if (!FindTokens()) {
    if (!any) return absl::UnimplementedError("the program has no input of token numbers");
    SL_RETURN_IF_ERROR(FindNumbers());
  }
  SL_ASSIGN_OR_RETURN(const TorchLoss end, FindLoss(graph_));
  std::vector<std::string> ends = {end.logits};
  if (!end.loss.empty()) ends.push_back(end.loss);
  SL_RETURN_IF_ERROR(CheckEffects(graph_, archive_, ends, any));
  return end.logits;
}

absl::StatusOr<std::vector<ValueId>> RaisedNodes::AppendAll(const TorchNode& from, Op op,
                                                            std::vector<ValueId> inputs,
                                                            std::vector<double> attributes,
                                                            const std::string& name) {
  std::vector<Type> types;
  for (const ValueId input : inputs) types.push_back(builder_.TypeOf(input));
  const auto fits = InferTypes(op, types, attributes);
  if (!fits.ok()) return graph_.Unknown(from, fits.status().message());
  std::string called = name.empty() ? from.module : name;
  for (char& c : called) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  modules_.push_back(from.module);
  return builder_.AppendAll(op, std::move(inputs), std::move(attributes), called);
}

absl::StatusOr<ValueId> RaisedNodes::Append(const TorchNode& from, Op op,
                                            std::vector<ValueId> inputs,
                                            std::vector<double> attributes) {
  SL_ASSIGN_OR_RETURN(const std::vector<ValueId> values,
                      AppendAll(from, op, std::move(inputs), std::move(attributes)));
  return values.front();
}

absl::StatusOr<ValueId> RaisedNodes::AppendDropout(const TorchNode& from, ValueId x, double p) {
  if (mask_key_ == kNone) {
    mask_key_ = builder_.Input(Role::kMaskKey, 0, {DType::kI32, {4}}, "mask_key");
  }
  const double site = dropouts_++;
  return Append(from, Op::kDropout, {x, mask_key_}, {p, site});
}

absl::StatusOr<RaisedModel> RaisedNodes::Finish(ValueId logits) && {
  Type targets{DType::kI32, TypeOf(logits).shape};
  targets.shape.pop_back();
  const ValueId target = builder_.Input(Role::kTarget, 0, targets, "target");
  SL_ASSIGN_OR_RETURN(const auto loss,
                      AppendAll({}, Op::kCrossEntropy, {logits, target}, {}, "loss"));
  builder_.Output(Role::kLoss, 0, loss[0]);
  RaisedModel model;
  model.name = graph_.program().model;
  model.graph = builder_.Finish();
  model.sample = std::move(sample_);
  model.modules = std::move(modules_);
  model.params = std::move(params_).Finish();
  if (std::all_of(model.params.begin(), model.params.end(),
                  [](const RaisedParam& of) { return of.param.frozen; })) {
    return absl::InvalidArgumentError(
        "all of its parameters have requires_grad=False, so nothing would be trained");
  }
  SL_RETURN_IF_ERROR(FindLayers(&model));
  return model;
}

}  // namespace stringline
