// The nodes on which the logits depend are raised in the order of the program, each by the rule of
// its op. What depends on neither tokens nor parameters becomes numbers (constants.h).
#include "executor/torch_model/raise_ops.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

OpRule RuleOf(const TorchNode& node) {
  for (const OpRules* const rules : {&LayerRules(), &WindowRules(), &IndexRules(),
                                     &RecurrentRules(), &LayoutRules(), &ArithmeticRules()}) {
    if (const auto rule = rules->find(node.op); rule != rules->end()) return rule->second;
  }
  return nullptr;
}

// The nodes on which the value depends and whose results are neither constants nor another value
// unchanged.
std::set<const TorchNode*> NodesBehind(const RaisedNodes& nodes, const std::string& end) {
  const TorchGraph& graph = nodes.graph();
  std::set<const TorchNode*> needed;
  std::vector<std::string> open = {end};
  while (!open.empty()) {
    const std::string value = graph.Strip(open.back());
    open.pop_back();
    const TorchNode* const node = graph.Producer(value);
    if (node == nullptr || nodes.constants().Is(value) || !needed.insert(node).second) continue;
    for (const auto& [name, argument] : node->inputs) {
      for (const std::string& tensor : argument.tensors) {
        if (!tensor.empty()) open.push_back(tensor);
      }
    }
  }
  return needed;
}

std::string WhyUnknown(const TorchNode& node) {
  if (!absl::EndsWith(node.op, "_dropout")) return "";
  return "dropout of whole channels, or of another kind: dropout of single numbers is known, and "
         "none at all, after eval()";
}

absl::Status RaiseNode(const TorchNode& node, TorchOperands* operands) {
  const TorchGraph& graph = operands->graph();
  const OpRule rule = RuleOf(node);
  if (rule == nullptr) return graph.Unknown(node, WhyUnknown(node));
  operands->tensors().From(node);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& output = node.outputs[i];
    if (output.empty() || operands->Has(output)) continue;  // made with an earlier one
    const TensorNodes::Sizes& own = graph.Sizes(output);
    if (std::count(own.begin(), own.end(), 0) > 0) continue;  // a join leaves it out
    SL_ASSIGN_OR_RETURN(const ValueId made, rule(*operands, node, i));
    TensorNodes::Sizes sizes = operands->tensors().SizesOf(made);
    const TensorNodes::Sizes& wanted = graph.Sizes(output);
    if (!sizes.empty() && sizes.size() == wanted.size() && sizes[0] == 1) sizes[0] = wanted[0];
    if (sizes != wanted) {
      return graph.Unknown(node, "its result has other sizes than the program's");
    }
    operands->Set(output, made);
  }
  return absl::OkStatus();
}

// Logits as (B,T,V) with a target for each token; a single one for each sequence; or several, and
// no more than the numbers of a sequence that is no tokens.
absl::StatusOr<TensorNodes::Sizes> SizesOfLogits(const RaisedNodes& nodes, const std::string& end) {
  const int64_t rows = nodes.sequences().shape[0], each = nodes.sequences().shape[1];
  const TensorNodes::Sizes& given = nodes.graph().Sizes(end);
  if (given.size() == 2 && given[0] == rows) return TensorNodes::Sizes{rows, 1, given[1]};
  if (given.size() == 2 && given[0] % rows == 0 && given[0] / rows <= each) {
    const int64_t targets = given[0] / rows;
    if (nodes.is_numbers() || targets == each) return TensorNodes::Sizes{rows, targets, given[1]};
  }
  const bool fits = given.size() == 3 && given[0] == rows &&
                    (nodes.is_numbers() ? given[1] <= each : given[1] == each);
  if (fits) return given;
  return nodes.graph().UnknownValue(
      end, absl::StrCat("its logits are (", absl::StrJoin(given, ", "), "), not (", rows, ", ",
                        nodes.is_numbers() ? "T" : absl::StrCat(each), ", ...) of the ",
                        nodes.is_numbers() ? "input" : "tokens"));
}

}  // namespace

absl::StatusOr<RaisedModel> RaiseOps(const TorchProgram& program, const Pt2Archive& archive) {
  RaisedNodes nodes(program, archive);
  SL_ASSIGN_OR_RETURN(const std::string end, nodes.Begin(/*any=*/true));
  TorchOperands operands(&nodes, end);
  const std::set<const TorchNode*> needed = NodesBehind(nodes, end);
  for (const TorchNode& node : program.nodes) {
    if (needed.count(&node) > 0) SL_RETURN_IF_ERROR(RaiseNode(node, &operands));
  }
  SL_ASSIGN_OR_RETURN(ValueId logits, operands.Value(end));
  SL_ASSIGN_OR_RETURN(const TensorNodes::Sizes sizes, SizesOfLogits(nodes, end));
  SL_ASSIGN_OR_RETURN(logits, operands.tensors().Reshape(logits, sizes));
  return std::move(nodes).Finish(logits);
}

}  // namespace stringline
