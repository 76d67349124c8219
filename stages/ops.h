// The table of ops as data: what ops.def says, with the rules as functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "stages/graph.h"

namespace stringline {

class Builder;

// The types of a node's outputs from those of its inputs, or InvalidArgument that says what does
// not fit. Number of inputs and attributes are already right.
using ShapeRule = absl::StatusOr<std::vector<Type>> (*)(absl::Span<const Type> inputs,
                                                        absl::Span<const double> attributes);

// Appends the nodes that give the gradients of a node's inputs. `output_grads` has -1 where nothing
// depends on an output. Only inputs with `wanted` set need a gradient; the result has one value per
// input, -1 for none. The rule may use the node's inputs and outputs as they are in `builder`.
using GradientRule = std::vector<ValueId> (*)(Builder& builder, const Node& node,
                                              absl::Span<const ValueId> output_grads,
                                              const std::vector<bool>& wanted);

struct OpRow {
  Op op;
  const char* name;
  std::vector<std::string> attributes;
  int inputs;
  int outputs;
  uint32_t accumulates;
  ShapeRule shape;
  GradientRule gradient;

  bool CanAccumulate(int output) const { return (accumulates >> output & 1) != 0; }
};

const std::vector<OpRow>& AllOps();
const OpRow& RowOf(Op op);
// nullptr: no op has this name.
const OpRow* OpNamed(absl::string_view name);

// Done by all ranks that share out the experts, together.
bool IsCollective(Op op);
// A collective that waits for much data: a graph is cut there (cut.h). Not the exchange of counts.
bool IsCut(Op op);

// The shape rule of `op`, after the number of inputs and attributes has been checked.
absl::StatusOr<std::vector<Type>> InferTypes(Op op, absl::Span<const Type> inputs,
                                             absl::Span<const double> attributes);

}  // namespace stringline
