// The table of ops as data: the rows of ops.def, with the rules as functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "stages/graph.h"

namespace stringline {

class Builder;

// The types of a node's outputs from those of its inputs, or InvalidArgument with the misfit. The
// numbers of inputs and attributes are already right.
using ShapeRule = absl::StatusOr<std::vector<Type>> (*)(absl::Span<const Type> inputs,
                                                        absl::Span<const double> attributes);

// Appends the nodes for the gradients of a node's inputs. `output_grads` has -1 for outputs without
// dependents. Only inputs with `wanted` set need a gradient; the result has a value per input, -1
// for none. The rule may use the node's inputs and outputs as they are in `builder`.
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
  bool repeats = false;  // the last attribute comes any number of times

  bool TakesAttributes(size_t count) const {
    return repeats ? count + 1 >= attributes.size() : count == attributes.size();
  }
  // The name of a node's attribute; "" behind the last.
  std::string AttributeAt(size_t index) const {
    if (index < attributes.size()) return attributes[index];
    return repeats ? attributes.back() : "";
  }

  bool CanAccumulate(int output) const { return (accumulates >> output & 1) != 0; }
};

const std::vector<OpRow>& AllOps();
const OpRow& RowOf(Op op);
// nullptr: no op has this name.
const OpRow* OpNamed(absl::string_view name);

// An op on tensors of any shape, which computes in F32 and on CPUs alone.
bool IsOfAnyTensor(Op op);
// Performed together by all ranks that share out the experts.
bool IsCollective(Op op);
// A collective with much data, at which a graph is cut (cut.h); not the exchange of counts.
bool IsCut(Op op);

// The shape rule of `op`, after the number of inputs and attributes has been checked.
absl::StatusOr<std::vector<Type>> InferTypes(Op op, absl::Span<const Type> inputs,
                                             absl::Span<const double> attributes);

}  // namespace stringline
