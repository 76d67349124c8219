// A port has its array in the state; another value gets one when it is made, and loses it after its
// last use. The ranks go through the graph together, node by node, so a collective is one call with
// the operands of all.
#include "executor/cpu/evaluate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "executor/bf16.h"
#include "executor/cpu/exchange.h"
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

// A graph being run node by node, for one rank.
class Run {
 public:
  Run(const Graph& graph, StageState* state);

  struct Operands {
    std::vector<Tensor> in, out;
  };
  // Makes room for what node n gives.
  Operands OperandsOf(const Node& node);
  void RunNode(const Node& node);
  // Forgets what nobody reads after node n.
  void Forget(size_t n, const std::vector<int>& last_uses);
  void Finish();

 private:
  const Graph& graph_;
  StageState* state_;
  std::vector<Array> values_;
  std::vector<bool> is_grad_;
};

Run::Run(const Graph& graph, StageState* state)
    : graph_(graph),
      state_(state),
      values_(graph.values.size()),
      is_grad_(graph.values.size(), false) {
  for (const Port& port : graph.inputs) {
    values_[port.value] = *SlotOf(port, state);
    SL_CHECK(values_[port.value].data != nullptr &&
             values_[port.value].type == graph.values[port.value].type)
        << "input " << NameOf(port.role) << " " << port.index;
  }
  for (const Port& port : graph.outputs) {
    if (port.role != Role::kParamGrad) continue;
    SL_CHECK(values_[port.value].data == nullptr) << graph.values[port.value].name;
    is_grad_[port.value] = true;
    values_[port.value] = *SlotOf(port, state);
    SL_CHECK(values_[port.value].type == graph.values[port.value].type)
        << "accumulator of param " << port.index;
  }
}

Run::Operands Run::OperandsOf(const Node& node) {
  Operands operands;
  for (ValueId value : node.inputs) {
    SL_CHECK(values_[value].data != nullptr) << graph_.values[value].name;
    operands.in.push_back({values_[value].data.get(), &graph_.values[value].type});
  }
  for (ValueId value : node.outputs) {
    const Type& type = graph_.values[value].type;
    if (values_[value].data == nullptr) values_[value] = {type, Allocate(type.bytes())};
    operands.out.push_back({values_[value].data.get(), &type});
  }
  return operands;
}

void Run::RunNode(const Node& node) {
  const Operands operands = OperandsOf(node);
  bool accumulate[8] = {};
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    accumulate[i] = is_grad_[node.outputs[i]];
    SL_CHECK(!accumulate[i] || RowOf(node.op).CanAccumulate(static_cast<int>(i)))
        << RowOf(node.op).name << " cannot accumulate output " << i;
  }
  const std::shared_ptr<void> workspace = Allocate(WorkspaceBytes(graph_, node));
  KernelFor(graph_, node)(node, operands.in, operands.out,
                          absl::MakeConstSpan(accumulate, operands.out.size()), workspace.get());
}

void Run::Forget(size_t n, const std::vector<int>& last_uses) {
  const Node& node = graph_.nodes[n];
  for (const std::vector<ValueId>* side : {&node.inputs, &node.outputs}) {
    for (ValueId value : *side) {
      if (last_uses[value] == static_cast<int>(n)) values_[value].data.reset();
    }
  }
}

void Run::Finish() {
  for (const Port& port : graph_.outputs) *SlotOf(port, state_) = values_[port.value];
}

void Collective(const Node& node, std::vector<Run>* runs) {
  std::vector<Run::Operands> operands;
  for (Run& run : *runs) operands.push_back(run.OperandsOf(node));
  std::vector<absl::Span<const Tensor>> in, out;
  for (const Run::Operands& of_rank : operands) {
    in.push_back(of_rank.in);
    out.push_back(of_rank.out);
  }
  Exchange(node, in, out);
}

}  // namespace

Array MakeArray(const Type& type) {
  Array array{type, Allocate(type.bytes())};
  std::memset(array.data.get(), 0, static_cast<size_t>(type.bytes()));
  return array;
}

Array RoundedToBf16(const Array& values) {
  Array rounded = MakeArray({DType::kBF16, values.type.shape});
  ToBf16(values.f32(), values.type.elements(), rounded.bf16());
  return rounded;
}

StageState MakeState(const StageProgram& program, uint64_t seed, int expert_rank) {
  StageState state;
  for (const Param& param : program.params) {
    Array values = MakeArray(GradTypeOf(param));
    Initialize(param, seed, values.f32(), expert_rank);
    state.params.push_back(param.type == values.type ? values : RoundedToBf16(values));
    state.param_grads.push_back(MakeArray(values.type));
  }
  return state;
}

void Evaluate(const Graph& graph, StageState* state) { EvaluateTogether(graph, {&state, 1}); }

void EvaluateTogether(const Graph& graph, absl::Span<StageState* const> states) {
  PrepareThread();
  std::vector<Run> runs;
  for (StageState* state : states) runs.emplace_back(graph, state);
  const std::vector<int> last_uses = LastUses(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (IsCollective(graph.nodes[n].op) && runs.size() > 1) {
      Collective(graph.nodes[n], &runs);
    } else {
      for (Run& run : runs) run.RunNode(graph.nodes[n]);
    }
    for (Run& run : runs) run.Forget(n, last_uses);
  }
  for (Run& run : runs) run.Finish();
}

}  // namespace stringline::cpu
