// A port has its array in the state; any other value's array lives from its node to its last use.
// The ranks go through the graph together, node by node, so a collective is a single call with the
// operands of all.
#include "executor/cpu/evaluate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "executor/cpu/kernel.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/sl_check.h"
#include "stages/init.h"
#include "stages/ops.h"

namespace stringline::cpu {
namespace {

// The collectives between the ranks that divide the experts, with the memory of all at hand: the
// reference definition. Exchanges between processes or devices give the same.
//
// Rank x sends the rows of its experts-sorted slots in as many pieces as there are ranks, piece y
// being the rows of rank y's experts. Rank y receives the pieces in the order of the ranks, its own
// among them; each is sorted by expert as it was sent.
using Operands = absl::Span<const absl::Span<const Tensor>>;

void ExchangeCounts(Operands in, Operands out) {
  const size_t ranks = in.size();
  const int64_t own = in[0][0].type->elements() / static_cast<int64_t>(ranks);  // experts
  for (size_t x = 0; x < ranks; ++x) {
    for (size_t y = 0; y < ranks; ++y) {
      std::copy_n(in[x][0].i32() + static_cast<int64_t>(y) * own, own,
                  out[y][0].i32() + static_cast<int64_t>(x) * own);
    }
  }
}

// Calls body(x, y, from, to, rows): the piece that x sends to y, by rows of x's slots and of y's
// receipt.
template <typename Body>
void ForPieces(Operands in, Body body) {
  const size_t ranks = in.size();
  std::vector<int64_t> end(ranks, 0);  // rows received by y so far
  for (size_t x = 0; x < ranks; ++x) {
    const int32_t* counts = in[x][1].i32();
    const int64_t own = in[x][1].type->elements() / static_cast<int64_t>(ranks);
    int64_t from = 0;
    for (size_t y = 0; y < ranks; ++y) {
      const int32_t* piece = counts + static_cast<int64_t>(y) * own;
      const int64_t rows = std::accumulate(piece, piece + own, int64_t{0});
      SL_CHECK(std::equal(piece, piece + own, in[y][2].i32() + static_cast<int64_t>(x) * own))
          << "rank " << x << " sends what rank " << y << " does not expect";
      body(x, y, from, end[y], rows);
      from += rows;
      end[y] += rows;
    }
  }
}

void CopyRows(const Tensor& from, int64_t from_row, const Tensor& to, int64_t to_row,
              int64_t rows) {
  const int64_t row_bytes = from.type->bytes() / from.type->shape[0];
  SL_CHECK(from_row + rows <= from.type->shape[0] && to_row + rows <= to.type->shape[0])
      << rows << " rows from " << from_row << " to " << to_row;
  std::memcpy(static_cast<char*>(to.data) + to_row * row_bytes,
              static_cast<const char*>(from.data) + from_row * row_bytes,
              static_cast<size_t>(rows * row_bytes));
}

// Runs `node`, a collective (IsCollective), for all members at once: in[x] and out[x] are the
// operands of rank x, as for a kernel. Rows without a sender are not written, except in a combine,
// which zeroes them.
void Exchange(const Node& node, Operands in, Operands out) {
  switch (node.op) {
    case Op::kAllToAllCounts:
      return ExchangeCounts(in, out);
    case Op::kDispatch:
      return ForPieces(in, [&](size_t x, size_t y, int64_t from, int64_t to, int64_t rows) {
        CopyRows(in[x][0], from, out[y][0], to, rows);
      });
    case Op::kCombine:
      for (absl::Span<const Tensor> rank : out) {
        std::memset(rank[0].data, 0, static_cast<size_t>(rank[0].type->bytes()));
      }
      return ForPieces(in, [&](size_t x, size_t y, int64_t from, int64_t to, int64_t rows) {
        CopyRows(in[y][0], to, out[x][0], from, rows);
      });
    default:
      SL_CHECK(false) << "not a collective";
  }
}

constexpr int64_t kAlignment = 64;

std::shared_ptr<void> Allocate(int64_t bytes) {
  const int64_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
  SL_CHECK(data != nullptr) << size << " bytes";
  return {data, std::free};
}

// The array of a port in the state.
Array* SlotOf(const Port& port, StageState* state) {
  auto at = [&](std::vector<Array>& arrays) {
    if (arrays.size() <= static_cast<size_t>(port.index)) arrays.resize(port.index + 1);
    return &arrays[port.index];
  };
  switch (port.role) {
    case Role::kParam:
      return at(state->params);
    case Role::kInput:
      return at(state->inputs);
    case Role::kTarget:
      return &state->target;
    case Role::kPositions:
      return &state->positions;
    case Role::kMaskKey:
      return &state->mask_key;
    case Role::kOutGrad:
      return at(state->out_grads);
    case Role::kPast:
      return at(state->past);
    case Role::kKeyGrad:
      return at(state->key_grads);
    case Role::kKeys:
      return at(state->keys);
    case Role::kKeyGradBefore:
      return at(state->key_grads_before);
    case Role::kSaved:
      return at(state->saved);
    case Role::kStash:
      return at(state->stash);
    case Role::kOutput:
      return at(state->outputs);
    case Role::kLoss:
      return &state->loss;
    case Role::kAuxLoss:
      return at(state->aux_losses);
    case Role::kDropped:
      return at(state->dropped);
    case Role::kInGrad:
      return at(state->in_grads);
    case Role::kParamGrad:
      return at(state->param_grads);
  }
  return nullptr;
}

// For every value the index of the last node that reads or makes the value; outputs live to the
// end.
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
  // Allocates the outputs of a node.
  Operands OperandsOf(const Node& node);
  void RunNode(const Node& node);
  // Frees values without a use after node n.
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

Array MakeMaskKey(const MaskKey& key) {
  const auto words = key.words();
  Array array = MakeArray({DType::kI32, {static_cast<int64_t>(words.size())}});
  std::copy(words.begin(), words.end(), array.i32());
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
  state.inputs.resize(program.inputs.size());
  state.in_grads.resize(program.inputs.size());
  state.outputs.resize(program.outputs.size());
  state.out_grads.resize(program.outputs.size());
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
