// From a forward graph to the joint graph: forward and backward in one.
//
// A reverse walk over the nodes calls each op's gradient rule. A value with several uses gets the
// sum of its gradients, added in the order of the walk, the reverse of the uses' order: so cutting
// a model into stages changes no sum.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "stages/graph.h"
#include "stages/stage_program.h"

namespace stringline {

struct Joint {
  Graph graph;            // inputs: the forward's, then out_grads (if its output is no loss)
  int forward_nodes = 0;  // nodes before this are the forward's
  // Gradients by the forward's param index; -1: the output does not depend on the param. Each is
  // the output of a node that can accumulate, and is read by no node.
  std::vector<ValueId> param_grads;
  // By index of the forward's kInput; -1: integers, or the output does not depend on it.
  std::vector<ValueId> in_grads;
  // The values that input_gradient must compute: in_grads, and, for integer inputs, the gradients
  // of the values computed directly from them (the embedding's output).
  std::vector<ValueId> anchors;
  // By index of the forward's kPast: the gradients that this slice and the slices behind it give.
  std::vector<ValueId> past_grads;
};

// The first output of `forward` is a kOutput or a kLoss; others may be kOutput, kAuxLoss, kDropped
// and kSaved. The gradient of every loss is 1, so auxiliary losses are roots beside the result, on
// any stage. Param indices are from 0 without gaps. InvalidArgument if an op in between has no
// gradient rule. A slice that is not the last has further inputs, kKeyGrad. `params`: those of the
// graph, of which frozen ones have no gradient.
absl::StatusOr<Joint> Differentiate(const Graph& forward, const std::vector<Param>& params,
                                    const SlicePlace& slice);

}  // namespace stringline
