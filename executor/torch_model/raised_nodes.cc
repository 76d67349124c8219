#include "executor/torch_model/raised_nodes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
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

absl::Status RaisedNodes::FindTokens() {
  const std::vector<std::string>& inputs = graph_.program().inputs;
  for (const TorchNode& node : graph_.program().nodes) {
    if (node.op != "embedding") continue;
    tokens_ = graph_.Strip(node.Tensor("indices"));
    if (std::count(inputs.begin(), inputs.end(), tokens_) == 0) continue;
    if (graph_.Sizes(tokens_).size() != 2) break;
    token_value_ = builder_.Input(Role::kInput, 0, TypeOfTokens(), "tokens");
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the program has no input of token numbers, of two dimensions, for an embedding");
}

absl::StatusOr<std::string> RaisedNodes::Begin(bool truths) {
  SL_RETURN_IF_ERROR(FindTokens());
  SL_ASSIGN_OR_RETURN(const TorchLoss end, FindLoss(graph_));
  std::vector<std::string> ends = {end.logits};
  if (!end.loss.empty()) ends.push_back(end.loss);
  SL_RETURN_IF_ERROR(CheckEffects(graph_, archive_, ends, truths));
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

absl::StatusOr<RaisedModel> RaisedNodes::Finish(ValueId logits) && {
  const ValueId target = builder_.Input(Role::kTarget, 0, TypeOfTokens(), "target");
  SL_ASSIGN_OR_RETURN(const auto loss,
                      AppendAll({}, Op::kCrossEntropy, {logits, target}, {}, "loss"));
  builder_.Output(Role::kLoss, 0, loss[0]);
  RaisedModel model;
  model.name = graph_.program().model;
  model.graph = builder_.Finish();
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
