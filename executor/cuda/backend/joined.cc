// Two nodes in one launch (ReadyKernel::with): the gradient of a product's input with that of the
// GELU before the product, and the gradient of a norm with the addition of the residual's gradient.
//
// The later node does the work. The pair of norm and addition has the bits of the two apart, and
// that of product and GELU is the same in every program of a model, so neither changes any bits
// between schedules.
#include <algorithm>

#include "executor/cuda/backend/ops.h"

namespace stringline::cuda {
namespace {

// The number of nodes and ports that read the value.
int64_t ReadersOf(const Graph& graph, ValueId value) {
  int64_t readers = 0;
  for (const Port& port : graph.outputs) readers += port.value == value ? 1 : 0;
  for (const Node& node : graph.nodes) {
    readers += std::count(node.inputs.begin(), node.inputs.end(), value);
  }
  return readers;
}

// The index of the node whose first output is the value, read by a single node alone; or -1. Its
// further outputs are outputs of the graph that no node reads.
int EarlierNode(const Graph& graph, ValueId value) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return !node.outputs.empty() && node.outputs[0] == value;
  });
  if (found == graph.nodes.end() || ReadersOf(graph, value) != 1) return -1;
  for (size_t i = 1; i < found->outputs.size(); ++i) {
    const ValueId further = found->outputs[i];
    const bool is_port = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                     [further](const Port& port) { return port.value == further; });
    if (!is_port || ReadersOf(graph, further) != 1) return -1;
  }
  return static_cast<int>(found - graph.nodes.begin());
}

bool IsNormGrad(Op op) { return op == Op::kLayerNormGrad || op == Op::kRmsNormGrad; }

}  // namespace

void JoinNodes(const NodeTypes& types, Products* library, NodeData* data,
               int64_t* workspace_bytes) {
  const Node& node = types.node;
  const auto earlier = [&](int input) {
    return input < 0 ? Op::kConstant : types.graph.nodes[static_cast<size_t>(input)].op;
  };
  if (node.op == Op::kGeluGrad) {
    const int with = EarlierNode(types.graph, node.inputs[0]);
    if (earlier(with) != Op::kLinearInputGrad) return;
    const NodeTypes product = {types.graph, types.graph.nodes[static_cast<size_t>(with)]};
    if (ChooseProductWithGelu(product, library, data, workspace_bytes)) data->with = with;
    return;
  }
  if (node.op != Op::kAdd) return;
  for (const ValueId input : node.inputs) {
    const int with = EarlierNode(types.graph, input);
    if (!IsNormGrad(earlier(with))) continue;
    const NodeTypes norm = {types.graph, types.graph.nodes[static_cast<size_t>(with)]};
    *workspace_bytes = NormLaunch(norm.node.op).workspace_bytes(norm);
    data->with = with;
    return;
  }
}

OpLaunch JoinedLaunch(Op earlier) {
  if (earlier == Op::kLinearInputGrad) return {nullptr, LaunchProductWithGelu};
  return NormWithSumLaunch(earlier);
}

}  // namespace stringline::cuda
