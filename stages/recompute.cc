// A walk over the backward in order: a reader of a recomputed value requests the copy, and a copy
// requests copies of its inputs, down to kept values.
#include "stages/recompute.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/builder.h"
#include "stages/cut.h"
#include "stages/ops.h"

namespace stringline {
namespace {

// Rewrites a joint graph node by node.
class Rewriter {
 public:
  Rewriter(const Halved& halved, const std::vector<bool>& again, bool for_weights)
      : old_(halved),
        again_(again),
        for_weights_(for_weights),
        producers_(Producers(halved.joint.graph)),
        moved_(halved.joint.graph.values.size(), kNone) {
    for (std::vector<ValueId>& copies : copies_) copies.assign(moved_.size(), kNone);
  }

  Halved Rewrite() &&;

 private:
  ValueId Read(ValueId value, bool weight);
  void Copy(int node, bool weight);

  const Halved& old_;
  const std::vector<bool>& again_;
  const bool for_weights_;
  const std::vector<int> producers_;
  Builder builder_;
  std::vector<bool> weight_;
  std::vector<ValueId> moved_;      // by value of the old graph
  std::vector<ValueId> copies_[2];  // I's, and W's own
};

// The value that replaces an old value in a node of I's or W's.
ValueId Rewriter::Read(ValueId value, bool weight) {
  const int producer = producers_[value];
  if (producer < 0 || producer >= old_.joint.forward_nodes || !again_[producer]) {
    return moved_[value];
  }
  const bool own = weight && for_weights_;
  if (copies_[own][value] == kNone) Copy(producer, own);
  return copies_[own][value];
}

// Follows the chain of copies with a list instead of recursion: a stage may be a thousand layers
// deep.
void Rewriter::Copy(int node, bool weight) {
  std::vector<int> waiting = {node};
  std::vector<ValueId>& copies = copies_[weight];
  while (!waiting.empty()) {
    const Node& old = old_.joint.graph.nodes[waiting.back()];
    if (copies[old.outputs[0]] != kNone) {
      waiting.pop_back();
      continue;
    }
    const size_t before = waiting.size();
    std::vector<ValueId> inputs;
    for (ValueId value : old.inputs) {
      const int producer = producers_[value];
      const bool copied = producer >= 0 && again_[producer];
      if (copied && copies[value] == kNone) waiting.push_back(producer);
      inputs.push_back(copied ? copies[value] : moved_[value]);
    }
    if (waiting.size() > before) continue;
    waiting.pop_back();
    const std::vector<ValueId> outputs = builder_.AppendAll(old.op, inputs, old.attributes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      copies[old.outputs[i]] = outputs[i];
      builder_.Rename(outputs[i],
                      absl::StrCat("again.", old_.joint.graph.values[old.outputs[i]].name));
    }
    weight_.push_back(weight);
  }
}

Halved Rewriter::Rewrite() && {
  const Joint& joint = old_.joint;
  const Graph& graph = joint.graph;
  // Gradients come after the forward, whose values keep their numbers.
  const auto define = [&](bool gradients) {
    for (const Port& port : graph.inputs) {
      if ((port.role == Role::kOutGrad || port.role == Role::kKeyGrad) != gradients) continue;
      const Value& value = graph.values[port.value];
      moved_[port.value] = builder_.Input(port.role, port.index, value.type, value.name);
    }
  };
  define(false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (static_cast<int>(n) == joint.forward_nodes) define(true);
    const Node& node = graph.nodes[n];
    const bool forward = static_cast<int>(n) < joint.forward_nodes;
    std::vector<ValueId> inputs;
    for (ValueId value : node.inputs) {
      inputs.push_back(forward ? moved_[value] : Read(value, old_.weight[n]));
    }
    const std::vector<ValueId> outputs = builder_.AppendAll(node.op, inputs, node.attributes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      moved_[node.outputs[i]] = outputs[i];
      builder_.Rename(outputs[i], graph.values[node.outputs[i]].name);
    }
    weight_.push_back(old_.weight[n]);
  }
  Halved result{{builder_.graph(), joint.forward_nodes, {}, {}, {}, {}}, std::move(weight_)};
  const auto moved = [&](ValueId value) { return value == kNone ? kNone : moved_[value]; };
  for (ValueId grad : joint.param_grads) result.joint.param_grads.push_back(moved(grad));
  for (ValueId grad : joint.in_grads) result.joint.in_grads.push_back(moved(grad));
  for (ValueId anchor : joint.anchors) result.joint.anchors.push_back(moved(anchor));
  for (ValueId grad : joint.past_grads) result.joint.past_grads.push_back(moved(grad));
  return result;
}

// True if the result takes more bytes than its sources, of which nothing else is saved.
bool Widens(const Graph& graph, const Node& node) {
  if (node.op == Op::kAppendPositions) return true;
  return node.op == Op::kCast && graph.values[node.inputs[0]].type.dtype == DType::kBF16 &&
         graph.values[node.outputs[0]].type.dtype == DType::kF32;
}

}  // namespace

std::vector<bool> ComputedAgain(const Graph& forward, Recompute what) {
  std::vector<bool> again(forward.nodes.size(), false);
  const std::vector<int> parts = PartsOf(forward);
  std::vector<bool> kept(forward.values.size(), false);
  for (const Port& port : forward.outputs) {
    if (port.role == Role::kSaved) kept[port.value] = true;
  }
  bool behind_the_last = true;
  for (size_t n = forward.nodes.size(); n-- > 0;) {
    const Node& node = forward.nodes[n];
    const bool checkpoint = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [&](ValueId value) { return kept[value]; });
    if (checkpoint) behind_the_last = false;
    if (checkpoint || behind_the_last || node.inputs.empty()) continue;
    if (IsCollective(node.op) || node.op == Op::kRoute || node.op == Op::kDispatchPlan) continue;
    const bool of_experts = parts[n] % 2 == 1;
    const bool chosen = what == (of_experts ? Recompute::kExperts : Recompute::kAttn);
    again[n] = what == Recompute::kAll || chosen || Widens(forward, node);
  }
  return again;
}

Halved ComputeAgain(const Halved& halved, const std::vector<bool>& again, bool for_weights) {
  return Rewriter(halved, again, for_weights).Rewrite();
}

}  // namespace stringline
