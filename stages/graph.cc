#include "stages/graph.h"

#include <algorithm>

#include "schedlang/base/sl_check.h"

namespace stringline {

int BytesOf(DType dtype) { return dtype == DType::kBF16 ? 2 : 4; }

const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kI32:
      return "i32";
    case DType::kBF16:
      return "bf16";
  }
  return "?";
}

int64_t Type::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

int64_t Type::bytes() const { return elements() * BytesOf(dtype); }

const char* NameOf(Role role) {
  switch (role) {
    case Role::kParam:
      return "param";
    case Role::kInput:
      return "input";
    case Role::kTarget:
      return "target";
    case Role::kPositions:
      return "positions";
    case Role::kMaskKey:
      return "mask_key";
    case Role::kOutGrad:
      return "out_grad";
    case Role::kPast:
      return "past";
    case Role::kKeyGrad:
      return "key_grad";
    case Role::kKeys:
      return "keys";
    case Role::kKeyGradBefore:
      return "key_grad_before";
    case Role::kSaved:
      return "saved";
    case Role::kStash:
      return "stash";
    case Role::kOutput:
      return "output";
    case Role::kLoss:
      return "loss";
    case Role::kAuxLoss:
      return "aux_loss";
    case Role::kDropped:
      return "dropped";
    case Role::kInGrad:
      return "in_grad";
    case Role::kParamGrad:
      return "param_grad";
  }
  return "?";
}

std::vector<int> Producers(const Graph& graph) {
  std::vector<int> producers(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId value : graph.nodes[n].outputs) producers[value] = static_cast<int>(n);
  }
  return producers;
}

std::vector<int> NodesBehind(const Graph& graph, const std::vector<ValueId>& targets) {
  std::vector<bool> needed(graph.values.size(), false);
  for (ValueId value : targets) needed[value] = true;
  std::vector<int> nodes;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    const Node& node = graph.nodes[n];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId value) { return needed[value]; });
    if (!used) continue;
    for (ValueId value : node.inputs) needed[value] = true;
    nodes.push_back(n);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

Graph Extract(const Graph& graph, const std::vector<int>& nodes, const std::vector<Port>& inputs,
              const std::vector<Port>& outputs) {
  Graph result;
  std::vector<ValueId> renumbered(graph.values.size(), -1);
  auto define = [&](ValueId value) {
    SL_CHECK(renumbered[value] < 0) << "value " << graph.values[value].name << " defined twice";
    renumbered[value] = static_cast<ValueId>(result.values.size());
    result.values.push_back(graph.values[value]);
    return renumbered[value];
  };
  auto use = [&](ValueId value) {
    SL_CHECK(renumbered[value] >= 0) << "value " << graph.values[value].name << " is not defined";
    return renumbered[value];
  };
  for (const Port& port : inputs) {
    result.inputs.push_back({port.role, port.index, define(port.value)});
  }
  for (int n : nodes) {
    Node node = graph.nodes[n];
    for (ValueId& value : node.inputs) value = use(value);
    for (ValueId& value : node.outputs) value = define(value);
    result.nodes.push_back(std::move(node));
  }
  for (const Port& port : outputs) {
    result.outputs.push_back({port.role, port.index, use(port.value)});
  }
  return result;
}

}  // namespace stringline
