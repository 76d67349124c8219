// Appends to a graph, node by node; infers types and keeps names unique.
//
// A misfit is a bug of the caller (SL_CHECK): code that builds from a user's numbers checks them
// first, and the text reader calls InferTypes itself.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "absl/types/span.h"
#include "stages/graph.h"

namespace stringline {

class Builder {
 public:
  Builder() = default;
  // Goes on at the end of `graph`.
  explicit Builder(Graph graph);

  ValueId Input(Role role, int index, Type type, const std::string& name);
  void Output(Role role, int index, ValueId value);

  // Appends a node with one output. Without a name the output is named after the op; a taken name
  // gets a number.
  ValueId Append(Op op, std::vector<ValueId> inputs, std::vector<double> attributes = {},
                 const std::string& name = "");
  // The same for a node with any number of outputs: `name`, `name.1`, `name.2`.
  std::vector<ValueId> AppendAll(Op op, std::vector<ValueId> inputs,
                                 std::vector<double> attributes = {}, const std::string& name = "");

  void Rename(ValueId value, const std::string& name);
  const Type& TypeOf(ValueId value) const { return graph_.values[value].type; }
  const Graph& graph() const { return graph_; }

  // The graph so far, canonical: inputs added between nodes are numbered first.
  Graph Finish() const;

 private:
  ValueId Define(Type type, const std::string& name);
  std::string Unique(const std::string& name);

  Graph graph_;
  std::unordered_set<std::string> names_;
};

}  // namespace stringline
