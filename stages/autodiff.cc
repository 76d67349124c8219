// The forward graph goes into a builder, and each node's gradients are appended, last node first;
// every value keeps the sum of its gradients so far. At the end each parameter's gradient is made
// accumulable.
#include "stages/autodiff.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/builder.h"
#include "stages/ops.h"

namespace stringline {
namespace {

// By value: has a gradient. True for float params that are not frozen, for float inputs, and for
// floats computed from them.
std::vector<bool> Differentiable(const Graph& graph, const std::vector<Param>& params) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Port& port : graph.inputs) {
    if (port.role == Role::kParam && params[static_cast<size_t>(port.index)].frozen) continue;
    if (port.role == Role::kParam || port.role == Role::kInput || port.role == Role::kPast) {
      result[port.value] = IsFloat(graph.values[port.value].type.dtype);
    }
  }
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId value) { return result[value]; });
    for (ValueId value : node.outputs) {
      result[value] = any && IsFloat(graph.values[value].type.dtype);
    }
  }
  return result;
}

// Casts two gradients of a BF16 parameter to F32 if their types differ.
void MakeAlike(Builder& builder, ValueId* a, ValueId* b) {
  if (builder.TypeOf(*a) == builder.TypeOf(*b)) return;
  for (ValueId* const value : {a, b}) {
    if (builder.TypeOf(*value).dtype == DType::kF32) continue;
    *value = builder.Append(Op::kCast, {*value}, {32}, builder.graph().values[*value].name);
  }
}

// Appends the gradients of a node's inputs and adds them into `grads`.
absl::Status StepBack(Builder& builder, const Node& node, const std::vector<bool>& differentiable,
                      std::vector<ValueId>& grads) {
  std::vector<ValueId> output_grads;
  bool any = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    output_grads.push_back(grads[node.outputs[i]]);
    if (output_grads.back() == kNone) continue;
    any = true;
    if (i > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(RowOf(node.op).name, " has no gradient through output ", i));
    }
  }
  std::vector<bool> wanted;
  for (ValueId value : node.inputs) wanted.push_back(differentiable[value]);
  if (!any || std::none_of(wanted.begin(), wanted.end(), [](bool want) { return want; })) {
    return absl::OkStatus();
  }
  const OpRow& row = RowOf(node.op);
  if (row.gradient == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(row.name, " has no gradient rule"));
  }
  const ValueId fresh = static_cast<ValueId>(builder.graph().values.size());
  std::vector<ValueId> found = row.gradient(builder, node, output_grads, wanted);
  SL_CHECK(found.size() == node.inputs.size()) << row.name;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!wanted[i]) continue;
    SL_CHECK(found[i] != kNone) << row.name << " gives no gradient of input " << i;
    const std::string name = absl::StrCat("d.", builder.graph().values[node.inputs[i]].name);
    if (found[i] >= fresh) builder.Rename(found[i], name);
    ValueId& sum = grads[node.inputs[i]];
    if (sum != kNone) MakeAlike(builder, &sum, &found[i]);
    sum = sum == kNone ? found[i] : builder.Append(Op::kAdd, {sum, found[i]}, {}, name);
  }
  return absl::OkStatus();
}

// By value of `graph`: a param's accumulator can take it directly. True for outputs of nodes that
// can accumulate, if read by nothing else.
std::vector<bool> Accumulable(const Graph& graph, const std::vector<ValueId>& anchors,
                              const std::vector<ValueId>& param_grads) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      result[node.outputs[i]] = RowOf(node.op).CanAccumulate(static_cast<int>(i)) &&
                                graph.values[node.outputs[i]].type.dtype == DType::kF32;
    }
  }
  for (const Node& node : graph.nodes) {
    for (ValueId value : node.inputs) result[value] = false;
  }
  for (ValueId value : anchors) result[value] = false;
  std::vector<bool> met(graph.values.size(), false);
  for (ValueId grad : param_grads) {
    if (grad == kNone) continue;
    if (met[grad]) result[grad] = false;
    met[grad] = true;
  }
  return result;
}

// Makes every param's gradient fit its accumulator, which is F32; if needed by a scale by 1 or a
// cast.
void MakeAccumulable(Builder& builder, const std::vector<ValueId>& anchors,
                     std::vector<ValueId>* param_grads) {
  const std::vector<bool> accumulable = Accumulable(builder.graph(), anchors, *param_grads);
  for (ValueId& grad : *param_grads) {
    if (grad == kNone || accumulable[grad]) continue;
    const std::string& name = builder.graph().values[grad].name;
    grad = builder.TypeOf(grad).dtype == DType::kF32
               ? builder.Append(Op::kScale, {grad}, {1}, name)
               : builder.Append(Op::kCast, {grad}, {32}, name);
  }
}

// The gradients of what is first computed from the input with a gradient: all others wait for them.
void AddAnchors(const Graph& forward, const Port& input, const std::vector<ValueId>& grads,
                std::vector<ValueId>* anchors) {
  auto add = [&](ValueId grad) {
    if (grad != kNone && std::count(anchors->begin(), anchors->end(), grad) == 0) {
      anchors->push_back(grad);
    }
  };
  add(grads[input.value]);
  if (IsFloat(forward.values[input.value].type.dtype)) return;
  std::vector<bool> without(forward.values.size(), false);  // made of the input alone
  without[input.value] = true;
  for (const Node& node : forward.nodes) {
    const auto of_input = [&](ValueId value) { return without[value]; };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), of_input)) continue;
    for (const ValueId value : node.outputs) {
      add(grads[value]);
      without[value] = std::all_of(node.inputs.begin(), node.inputs.end(), of_input);
    }
  }
}

// The gradient of the keys of slice `of`, from the slices behind this one.
ValueId KeyGrad(Builder& builder, int layer, int of, const SlicePlace& slice, const Type& keys) {
  return builder.Input(Role::kKeyGrad, layer * (slice.index + 1) + of, keys,
                       absl::StrCat("d.keys.", layer, ".", of));
}

// Adds the gradients of outputs into `grads`. A value that is several outputs gets their sum, the
// last one's first, as its readers are met in reverse.
void SeedOutputs(Builder& builder, const Graph& forward, std::vector<ValueId>& grads) {
  std::vector<std::pair<ValueId, ValueId>> seeds;  // value and gradient
  for (const Port& port : forward.outputs) {
    const Type& type = forward.values[port.value].type;
    if (port.role != Role::kOutput || !IsFloat(type.dtype)) continue;
    seeds.emplace_back(port.value, builder.Input(Role::kOutGrad, port.index, type, "d.out"));
  }
  for (auto seed = seeds.rbegin(); seed != seeds.rend(); ++seed) {
    ValueId& sum = grads[seed->first];
    sum = sum == kNone ? seed->second : builder.Append(Op::kAdd, {sum, seed->second}, {}, "d.outs");
  }
}

// The gradients from which the reverse walk begins.
std::vector<ValueId> Seeds(Builder& builder, const Graph& forward, const SlicePlace& slice) {
  std::vector<ValueId> grads(forward.values.size(), kNone);
  SeedOutputs(builder, forward, grads);
  for (const Port& port : forward.outputs) {
    if (port.role == Role::kSaved || port.role == Role::kDropped || port.role == Role::kOutput) {
      continue;
    }
    ValueId& grad = grads[port.value];
    SL_CHECK(grad == kNone) << forward.values[port.value].name << " is two outputs";
    if (port.role == Role::kKeys) {
      grad = KeyGrad(builder, port.index, slice.index, slice, builder.TypeOf(port.value));
    } else if (port.role == Role::kLoss) {
      grad = builder.Append(Op::kConstant, {}, {1}, "d.loss");
    } else if (port.role == Role::kAuxLoss) {
      grad = builder.Append(Op::kConstant, {}, {1}, "d.aux_loss");
    }
  }
  return grads;
}

}  // namespace

absl::StatusOr<Joint> Differentiate(const Graph& forward, const std::vector<Param>& params,
                                    const SlicePlace& slice) {
  SL_CHECK(!forward.outputs.empty() &&
           (forward.outputs[0].role == Role::kOutput || forward.outputs[0].role == Role::kLoss));
  Builder builder(forward);
  const std::vector<bool> differentiable = Differentiable(forward, params);
  std::vector<ValueId> grads = Seeds(builder, forward, slice);
  for (auto node = forward.nodes.rbegin(); node != forward.nodes.rend(); ++node) {
    SL_RETURN_IF_ERROR(StepBack(builder, *node, differentiable, grads));
  }

  Joint joint;
  joint.forward_nodes = static_cast<int>(forward.nodes.size());
  for (const Port& port : forward.inputs) {
    if (port.role == Role::kInput) {
      joint.in_grads.resize(std::max(joint.in_grads.size(), static_cast<size_t>(port.index) + 1),
                            kNone);
      joint.in_grads[port.index] = grads[port.value];
      AddAnchors(forward, port, grads, &joint.anchors);
    }
    if (port.role == Role::kPast) {
      ValueId grad = grads[port.value];
      SL_CHECK(grad != kNone) << "no attention reads " << forward.values[port.value].name;
      if (!slice.is_last()) {
        const ValueId behind = KeyGrad(builder, port.index / slice.index, port.index % slice.index,
                                       slice, builder.TypeOf(grad));
        grad = builder.Append(Op::kAdd, {behind, grad}, {}, "d.past");
      }
      joint.past_grads.resize(
          std::max(joint.past_grads.size(), static_cast<size_t>(port.index) + 1), kNone);
      joint.past_grads[port.index] = grad;
    }
    if (port.role != Role::kParam) continue;
    if (static_cast<int>(joint.param_grads.size()) <= port.index) {
      joint.param_grads.resize(port.index + 1, kNone);
    }
    joint.param_grads[port.index] = grads[port.value];
  }
  MakeAccumulable(builder, joint.anchors, &joint.param_grads);
  joint.graph = builder.graph();
  return joint;
}

}  // namespace stringline
