#include "executor/torch_model/torch_operands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr size_t kMostNumbers = size_t{1} << 22;  // of one constant

}  // namespace

std::optional<double> NumberOf(const TorchNode& node, const char* name) {
  const TorchArgument* const argument = node.Find(name);
  if (argument == nullptr || argument->numbers.size() != 1) return std::nullopt;
  return argument->numbers.front();
}

TorchOperands::TorchOperands(RaisedNodes* nodes, std::string logits)
    : nodes_(*nodes), tensors_(nodes), logits_(std::move(logits)) {}

bool TorchOperands::GivesLogits(const TorchNode& node) const {
  return graph().StripRows(logits_) == node.outputs.front();
}

TorchOperands::Made TorchOperands::Value(const std::string& value) {
  SL_ASSIGN_OR_RETURN(const ValueId loose, Loose(value));
  return tensors_.Expand(loose, graph().Sizes(value));
}

TorchOperands::Made TorchOperands::Loose(const std::string& given) {
  const std::string value = graph().Strip(given);
  if (values_.count(value) == 0) {
    if (nodes_.constants().Is(value)) {
      SL_ASSIGN_OR_RETURN(values_[value], NumbersOf(value, false));
    } else if (graph().IsParam(value)) {
      SL_ASSIGN_OR_RETURN(values_[value], Parameter(value));
    } else if (value == nodes_.input()) {
      values_[value] = nodes_.input_value();
      if (!nodes_.is_numbers()) {
        SL_ASSIGN_OR_RETURN(values_[value], tensors_.Append(Op::kFloat, {nodes_.input_value()}));
      }
    } else {
      return graph().UnknownValue(value, "as an activation");
    }
  }
  const ValueId made = values_.at(value);
  const bool is_alike = graph().Sizes(value) == graph().Sizes(given);
  if (is_alike) return made;
  SL_ASSIGN_OR_RETURN(const ValueId whole, tensors_.Expand(made, graph().Sizes(value)));
  return tensors_.Reshape(whole, graph().Sizes(given));
}

TorchOperands::Made TorchOperands::Indices(const std::string& value) {
  if (!nodes_.is_numbers() && graph().Strip(value) == nodes_.input()) return nodes_.input_value();
  SL_ASSIGN_OR_RETURN(const ValueId made, Value(value));
  return tensors_.Append(Op::kWhole, {made});
}

TorchOperands::Made TorchOperands::NumbersOf(const std::string& value, bool integer) {
  SL_ASSIGN_OR_RETURN(const auto constant, nodes_.constants().Value(value));
  if (constant->values.size() > kMostNumbers) {
    return graph().UnknownValue(value, absl::StrCat("a constant of ", constant->values.size(),
                                                    " numbers; at most ", kMostNumbers));
  }
  TensorNodes::Sizes sizes = graph().Sizes(value);
  std::vector<double> numbers = constant->values;
  if (!sizes.empty() && sizes[0] > 1) {
    const auto part = static_cast<std::ptrdiff_t>(numbers.size()) / sizes[0];
    if (std::equal(numbers.begin() + part, numbers.end(), numbers.begin())) {
      numbers.resize(static_cast<size_t>(part));
      sizes[0] = 1;
    }
  }
  return tensors_.Numbers(sizes, numbers, integer);
}

TorchOperands::Made TorchOperands::Parameter(const std::string& value) {
  const size_t dims = graph().Sizes(value).size();
  const TorchNode* const reader = Reader(value);
  return nodes_.params().Take({value}, dims <= 1 ? ParamUse::kBias : ParamUse::kProduct,
                              reader == nullptr ? "" : reader->module);
}

const TorchNode* TorchOperands::Reader(const std::string& value) const {
  for (const TorchNode& node : graph().program().nodes) {
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& tensor : argument.tensors) {
        if (!tensor.empty() && graph().Strip(tensor) == value) return &node;
      }
    }
  }
  return nullptr;
}

absl::StatusOr<std::optional<ValueId>> TorchOperands::Optional(const TorchNode& node,
                                                               const char* name) {
  const std::string value = node.Tensor(name);
  if (value.empty()) return std::nullopt;
  SL_ASSIGN_OR_RETURN(const ValueId made, Value(value));
  return made;
}

TorchOperands::Made TorchOperands::Operand(const TorchNode& node, const char* name) {
  const std::string value = node.Tensor(name);
  if (!value.empty()) return Loose(value);
  const std::optional<double> number = NumberOf(node, name);
  if (!number) return graph().Unknown(node, absl::StrCat("without ", name));
  return tensors_.Numbers({}, {*number});
}

absl::StatusOr<int64_t> TorchOperands::Dimension(const TorchNode& node, const char* name,
                                                 double otherwise,
                                                 const TensorNodes::Sizes& sizes) const {
  const int64_t dim = DimensionOf(static_cast<int64_t>(node.Number(name, otherwise)), sizes.size());
  if (dim < 0) return graph().Unknown(node, absl::StrCat("its ", name, " is not there"));
  return dim;
}

}  // namespace stringline
