#include "executor/cpu/evaluate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "schedlang/base/sl_check.h"
#include "stages/init.h"
#include "stages/ops.h"

namespace stringline::cpu {
namespace {

constexpr int64_t kAlignment = 64;

std::shared_ptr<void> Allocate(int64_t bytes) {
  const int64_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
  SL_CHECK(data != nullptr) << size << " bytes";
  return {data, std::free};
}

// Where the value of a port lives in the state.
Array* SlotOf(const Port& port, StageState* state) {
  auto at = [&](std::vector<Array>& arrays) {
    if (arrays.size() <= static_cast<size_t>(port.index)) arrays.resize(port.index + 1);
    return &arrays[port.index];
  };
  switch (port.role) {
    case Role::kParam:
      return at(state->params);
    case Role::kInput:
      return &state->input;
    case Role::kTarget:
      return &state->target;
    case Role::kOutGrad:
      return &state->out_grad;
    case Role::kSaved:
      return at(state->saved);
    case Role::kStash:
      return at(state->stash);
    case Role::kOutput:
      return &state->output;
    case Role::kLoss:
      return &state->loss;
    case Role::kAuxLoss:
      return at(state->aux_losses);
    case Role::kDropped:
      return at(state->dropped);
    case Role::kInGrad:
      return &state->in_grad;
    case Role::kParamGrad:
      return at(state->param_grads);
  }
  return nullptr;
}

// For every value the index of the last node that reads or makes it; outputs live to the end.
std::vector<int> LastUses(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId value : graph.nodes[n].inputs) last[value] = static_cast<int>(n);
    for (ValueId value : graph.nodes[n].outputs) last[value] = static_cast<int>(n);
  }
  for (const Port& port : graph.outputs) last[port.value] = static_cast<int>(graph.nodes.size());
  return last;
}

void RunNode(const Graph& graph, const Node& node, const std::vector<bool>& is_grad,
             std::vector<Array>* values) {
  std::vector<Tensor> in, out;
  bool accumulate[8] = {};
  for (ValueId value : node.inputs) {
    SL_CHECK((*values)[value].data != nullptr) << graph.values[value].name;
    in.push_back({(*values)[value].data.get(), &graph.values[value].type});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    Array& array = (*values)[value];
    accumulate[i] = is_grad[value];
    SL_CHECK(!accumulate[i] || RowOf(node.op).CanAccumulate(static_cast<int>(i)))
        << RowOf(node.op).name << " cannot accumulate output " << i;
    if (array.data == nullptr) {
      array = {graph.values[value].type, Allocate(graph.values[value].type.bytes())};
    }
    out.push_back({array.data.get(), &graph.values[value].type});
  }
  const std::shared_ptr<void> workspace = Allocate(WorkspaceBytes(graph, node));
  KernelFor(node.op)(node, in, out, absl::MakeConstSpan(accumulate, out.size()), workspace.get());
}

}  // namespace

Array MakeArray(const Type& type) {
  Array array{type, Allocate(type.bytes())};
  std::memset(array.data.get(), 0, static_cast<size_t>(type.bytes()));
  return array;
}

StageState MakeState(const StageProgram& program, uint64_t seed) {
  StageState state;
  for (const Param& param : program.params) {
    state.params.push_back(MakeArray(param.type));
    Initialize(param, seed, state.params.back().f32());
    state.param_grads.push_back(MakeArray(param.type));
  }
  return state;
}

void Evaluate(const Graph& graph, StageState* state) {
  PrepareThread();
  std::vector<Array> values(graph.values.size());
  std::vector<bool> is_grad(graph.values.size(), false);
  for (const Port& port : graph.inputs) {
    values[port.value] = *SlotOf(port, state);
    SL_CHECK(values[port.value].data != nullptr &&
             values[port.value].type == graph.values[port.value].type)
        << "input " << NameOf(port.role) << " " << port.index;
  }
  for (const Port& port : graph.outputs) {
    if (port.role != Role::kParamGrad) continue;
    SL_CHECK(values[port.value].data == nullptr) << graph.values[port.value].name;
    is_grad[port.value] = true;
    values[port.value] = *SlotOf(port, state);
    SL_CHECK(values[port.value].type == graph.values[port.value].type)
        << "accumulator of param " << port.index;
  }
  const std::vector<int> last = LastUses(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    RunNode(graph, node, is_grad, &values);
    for (const std::vector<ValueId>* side : {&node.inputs, &node.outputs}) {
      for (ValueId value : *side) {
        if (last[value] == static_cast<int>(n)) values[value].data.reset();
      }
    }
  }
  for (const Port& port : graph.outputs) *SlotOf(port, state) = values[port.value];
}

}  // namespace stringline::cpu
