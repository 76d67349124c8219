#include "stages/builder.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"

namespace stringline {

Builder::Builder(Graph graph) : graph_(std::move(graph)) {
  for (const Value& value : graph_.values) names_.insert(value.name);
}

std::string Builder::Unique(const std::string& name) {
  if (names_.insert(name).second) return name;
  for (int i = 2;; ++i) {
    std::string candidate = absl::StrCat(name, "_", i);
    if (names_.insert(candidate).second) return candidate;
  }
}

ValueId Builder::Define(Type type, const std::string& name) {
  graph_.values.push_back({std::move(type), Unique(name)});
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Builder::Input(Role role, int index, Type type, const std::string& name) {
  const ValueId value = Define(std::move(type), name);
  graph_.inputs.push_back({role, index, value});
  return value;
}

void Builder::Output(Role role, int index, ValueId value) {
  SL_CHECK(value >= 0 && value < static_cast<ValueId>(graph_.values.size())) << value;
  graph_.outputs.push_back({role, index, value});
}

ValueId Builder::Append(Op op, std::vector<ValueId> inputs, std::vector<double> attributes,
                        const std::string& name) {
  return AppendAll(op, std::move(inputs), std::move(attributes), name)[0];
}

std::vector<ValueId> Builder::AppendAll(Op op, std::vector<ValueId> inputs,
                                        std::vector<double> attributes, const std::string& name) {
  std::vector<Type> types;
  for (ValueId value : inputs) {
    SL_CHECK(value >= 0 && value < static_cast<ValueId>(graph_.values.size())) << value;
    types.push_back(TypeOf(value));
  }
  absl::StatusOr<std::vector<Type>> inferred = InferTypes(op, types, attributes);
  SL_CHECK(inferred.ok()) << inferred.status();
  Node node{op, std::move(inputs), {}, std::move(attributes)};
  const std::string base = name.empty() ? RowOf(op).name : name;
  for (Type& type : *inferred) {
    const size_t index = node.outputs.size();
    node.outputs.push_back(
        Define(std::move(type), index == 0 ? base : absl::StrCat(base, ".", index)));
  }
  graph_.nodes.push_back(node);
  return node.outputs;
}

void Builder::Rename(ValueId value, const std::string& name) {
  names_.erase(graph_.values[value].name);
  graph_.values[value].name = Unique(name);
}

Graph Builder::Finish() const {
  std::vector<int> all(graph_.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  return Extract(graph_, all, graph_.inputs, graph_.outputs);
}

}  // namespace stringline
