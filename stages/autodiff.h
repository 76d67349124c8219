// From a forward graph to the joint graph: forward and backward in one.
//
// Reverse walk over the nodes, asking each op's gradient rule. A value that is used several times
// gets the sum of its gradients, added in the order in which the walk meets them, which is the
// reverse of the uses' order: so cutting a model into stages changes no sum.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "stages/graph.h"

namespace stringline {

struct Joint {
  Graph graph;            // inputs: the forward's, then out_grad (if its output is no loss)
  int forward_nodes = 0;  // nodes before this one are the forward's
  // Gradients by the forward's param index; -1: the output does not depend on it. Every one is the
  // output of a node that can accumulate, and no node reads it.
  std::vector<ValueId> param_grads;
  ValueId in_grad = -1;  // -1: the input is integer, or the output does not depend on it
  // What input_gradient must compute: in_grad, or, for an integer input, the gradients of the
  // values that are computed directly from it (the embedding's output).
  std::vector<ValueId> anchors;
};

// The first output of `forward` is a kOutput or a kLoss; others may be kAuxLoss, kDropped and
// kSaved. The // gradient of every loss is 1, so that auxiliary ones are roots beside the result,
// on whatever stage they are. Param indices are from 0 without gaps. InvalidArgument if an op in
// between has no gradient rule.
absl::StatusOr<Joint> Differentiate(const Graph& forward);

}  // namespace stringline
