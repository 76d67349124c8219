// The operands of a program's nodes while it is raised op by op: values already made, constants as
// numbers, and parameters.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/torch_model/tensor_nodes.h"

namespace stringline {

class TorchOperands {
 public:
  using Made = absl::StatusOr<ValueId>;

  // `nodes` outlives the object. `logits`: the value that the loss takes.
  TorchOperands(RaisedNodes* nodes, std::string logits);

  const TorchGraph& graph() const { return nodes_.graph(); }
  RaisedNodes& nodes() { return nodes_; }
  TensorNodes& tensors() { return tensors_; }
  // True for the node whose result is the logits.
  bool GivesLogits(const TorchNode& node) const;
  void Set(const std::string& output, ValueId made) { values_[output] = made; }
  bool Has(const std::string& output) const { return values_.count(output) > 0; }
  // The first node that reads the value; nullptr: none does.
  const TorchNode* Reader(const std::string& value) const;

  // The value with its own sizes, in F32: whole numbers are floats, exact up to 2^24, and truths 0
  // and 1.
  Made Value(const std::string& value);
  // The same for ops that broadcast: what is alike along the first dimension may have size 1 there.
  // So constants of every sequence do not tie a program to its number of them.
  Made Loose(const std::string& value);
  // Whole numbers in I32, for ops that index by them.
  Made Indices(const std::string& value);
  // A tensor operand; nothing where it is left out.
  absl::StatusOr<std::optional<ValueId>> Optional(const TorchNode& node, const char* name);
  // A loose tensor operand, or a number as a tensor without dimensions.
  Made Operand(const TorchNode& node, const char* name);
  // The numbers of a constant.
  Made NumbersOf(const std::string& value, bool integer);
  // The named dimension of a value with these sizes, from its front.
  absl::StatusOr<int64_t> Dimension(const TorchNode& node, const char* name, double otherwise,
                                    const TensorNodes::Sizes& sizes) const;

 private:
  Made Parameter(const std::string& value);

  RaisedNodes& nodes_;
  TensorNodes tensors_;
  const std::string logits_;
  std::map<std::string, ValueId> values_;  // by the program's names of them
};

// The number of an operand that is no tensor.
std::optional<double> NumberOf(const TorchNode& node, const char* name);

}  // namespace stringline
