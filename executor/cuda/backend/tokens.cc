// Embedding, positions, and the loss.
#include <algorithm>
#include <vector>

#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

template <typename T>
void LaunchEmbedding(const OpRun& run) {
  const Type& table = run.in_type(1);
  run.launch(Embedding<T>{run.integers_in(0), run.in<T>(1), run.out<T>(0),
                          run.in_type(0).elements(), table.shape[0], table.shape[1]});
}

int64_t EmbeddingGradBytes(const NodeTypes& types) {
  const int64_t count = types.in(0).elements();
  return Workspace::BytesOf(
      {EmbeddingGradIntegers(count), EmbeddingGradFloats(count, ColumnsOf(types.in(1)))});
}
template <typename T>
void LaunchEmbeddingGrad(const OpRun& run) {
  const int64_t count = run.in_type(0).elements(), columns = ColumnsOf(run.in_type(1));
  int32_t* const integers = run.workspace.Take<int32_t>(EmbeddingGradIntegers(count));
  float* const floats = run.workspace.Take<float>(EmbeddingGradFloats(count, columns));
  // The launches below only add.
  if (!run.adds(0)) run.launch(Fill<float>{run.out(0), run.out_type(0).elements()});
  AddEmbeddingGrad(run.launch, run.integers_in(0), static_cast<const T*>(run.in<T>(1)), run.out(0),
                   count, run.out_type(0).shape[0], columns, integers, floats);
}

// Packed sequences have `in_documents` as the second operand; for other sequences it is null.
template <typename T>
void LaunchRotaryAt(const OpRun& run, const int32_t* in_documents) {
  const Type& x = run.in_type(0);
  const int64_t queries = run.attribute_as<int64_t>(0), keys = run.attribute_as<int64_t>(1);
  const PackedHeads heads = {queries, keys, ColumnsOf(x) / (queries + 2 * keys)};
  const int64_t positions = x.shape[1];
  const float* const cosines = run.data.rotary;
  run.launch(Rotary<T>{run.in<T>(0), run.out<T>(0), cosines, cosines + positions * (heads.size / 2),
                       RowsOf(x), positions, heads, run.attribute_as<float>(3), in_documents});
}
template <typename T>
void LaunchRotary(const OpRun& run) {
  LaunchRotaryAt<T>(run, nullptr);
}
template <typename T>
void LaunchPackedRotary(const OpRun& run) {
  LaunchRotaryAt<T>(run, run.integers_in(1));
}

static_assert(kWithoutTarget == kNoTarget);

int64_t CrossEntropyBytes(const NodeTypes& types) {
  return Workspace::BytesOf({types.in(1).elements()});
}
template <typename T>
void LaunchCrossEntropy(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(0)), columns = ColumnsOf(run.in_type(0));
  float* const losses = run.workspace.Take<float>(rows);
  const CrossEntropy<T> body = {run.in<T>(0),
                                run.integers_in(1),
                                run.out(1),
                                losses,
                                run.data.leaves_gradient ? run.in<T>(0) : nullptr,
                                /*dloss=*/nullptr,
                                rows,
                                columns,
                                columns};
  RunCrossEntropy(run.launch, body);
  run.launch(SumOfAll{losses, run.out(0), rows});
}

template <typename T>
void LaunchCrossEntropyGrad(const OpRun& run) {
  const int64_t rows = RowsOf(run.in_type(1)), columns = ColumnsOf(run.in_type(1));
  run.launch(CrossEntropy<T>{run.in<T>(1), run.integers_in(2), run.in(3), /*losses=*/nullptr,
                             run.out<T>(0), run.in(0), rows, columns, columns,
                             /*lse_is_known=*/true});
}

// The value is among the ports only with this role, and only this often.
bool IsPort(const std::vector<Port>& ports, ValueId value, Role role) {
  int64_t found = 0, all = 0;
  for (const Port& port : ports) {
    if (port.value != value) continue;
    ++all;
    found += port.role == role ? 1 : 0;
  }
  return found == 1 && all == 1;
}

int64_t NodesThatRead(const Graph& graph, ValueId value) {
  int64_t readers = 0;
  for (const Node& node : graph.nodes) {
    readers += std::count(node.inputs.begin(), node.inputs.end(), value);
  }
  return readers;
}

const Node* MakerOf(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes) {
    if (std::count(node.outputs.begin(), node.outputs.end(), value) > 0) return &node;
  }
  return nullptr;
}

// A product's gradient does not read what the product gave, so the logits' only other reader is in
// the backwards; and those begin with a gradient of 1 for a loss that is the graph's own.
bool LossLeavesGradient(const Graph& graph, const Node& node) {
  const ValueId logits = node.inputs[0], loss = node.outputs[0], lse = node.outputs[1];
  const Node* const maker = MakerOf(graph, logits);
  return maker != nullptr && (maker->op == Op::kLinear || maker->op == Op::kLinearBias) &&
         NodesThatRead(graph, logits) == 1 && IsPort(graph.outputs, logits, Role::kSaved) &&
         NodesThatRead(graph, lse) == 0 && IsPort(graph.outputs, lse, Role::kSaved) &&
         NodesThatRead(graph, loss) == 0 && IsPort(graph.outputs, loss, Role::kLoss);
}

bool LossGradIsThere(const Graph& graph, const Node& node) {
  const ValueId dloss = node.inputs[0], logits = node.inputs[1], lse = node.inputs[3];
  const Node* const maker = MakerOf(graph, dloss);
  return maker != nullptr && maker->op == Op::kConstant && maker->attributes[0] == 1 &&
         NodesThatRead(graph, logits) == 1 && IsPort(graph.inputs, logits, Role::kSaved) &&
         NodesThatRead(graph, lse) == 1 && IsPort(graph.inputs, lse, Role::kSaved);
}

}  // namespace

bool LeavesGradient(const NodeTypes& types) {
  const Node& node = types.node;
  return (node.op == Op::kCrossEntropy && LossLeavesGradient(types.graph, node)) ||
         (node.op == Op::kCrossEntropyGrad && LossGradIsThere(types.graph, node));
}

OpLaunch TokenLaunch(Op op) {
  switch (op) {
    case Op::kEmbedding:
      return {LaunchEmbedding<float>, LaunchEmbedding<Bf16>};
    case Op::kEmbeddingGrad:
      return {LaunchEmbeddingGrad<float>, LaunchEmbeddingGrad<Bf16>, EmbeddingGradBytes};
    case Op::kRotary:
      return {LaunchRotary<float>, LaunchRotary<Bf16>};
    case Op::kPackedRotary:
      return {LaunchPackedRotary<float>, LaunchPackedRotary<Bf16>};
    case Op::kCrossEntropy:
      return {LaunchCrossEntropy<float>, LaunchCrossEntropy<Bf16>, CrossEntropyBytes};
    case Op::kCrossEntropyGrad:
      return {LaunchCrossEntropyGrad<float>, LaunchCrossEntropyGrad<Bf16>};
    default:
      return {};
  }
}

}  // namespace stringline::cuda
