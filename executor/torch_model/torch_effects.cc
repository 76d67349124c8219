// A single walk over the dependencies of the values, in topological order, with a table of checks.
#include "executor/torch_model/torch_effects.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/torch_model/torch_arguments.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// Bits of a float's significand, which order the types by width.
int Precision(TorchType type) {
  switch (type) {
    case TorchType::kBFloat16:
      return 8;
    case TorchType::kHalf:
      return 11;
    case TorchType::kFloat:
      return 24;
    case TorchType::kDouble:
      return 53;
    default:
      return 0;
  }
}

// Ops with whole numbers as results of floats, by rules that let no gradient through them.
constexpr const char* kWholeOfFloats[] = {"to",     "_to_copy", "type_as", "copy",
                                          "cumsum", "topk",     "sort",    "argsort",
                                          "max",    "min",      "argmax",  "argmin"};

class EffectsWalk {
 public:
  EffectsWalk(const TorchGraph& graph, const Pt2Archive& archive,
              const std::vector<std::string>& values, bool truths)
      : graph_(graph), archive_(archive), truths_(truths) {
    for (const std::string& value : values) Mark(value);
    FindTrained();
    for (const std::string& value : params_) {
      const int precision = Precision(TypeOf(value));
      narrowest_ = narrowest_ == 0 ? precision : std::min(narrowest_, precision);
    }
  }

  absl::Status Check() const {
    for (const TorchNode& node : graph_.program().nodes) {
      if (nodes_.count(&node) == 0) continue;
      SL_RETURN_IF_ERROR(CheckArguments(graph_, node));
      SL_RETURN_IF_ERROR(CheckModes(node));
      for (const std::string& output : node.outputs) SL_RETURN_IF_ERROR(CheckType(node, output));
    }
    return CheckMemory();
  }

 private:
  TorchType TypeOf(const std::string& value) const {
    return graph_.program().values.at(value).type;
  }

  void Mark(const std::string& value) {
    std::vector<std::string> open = {value};
    while (!open.empty()) {
      const std::string at = open.back();
      open.pop_back();
      if (graph_.IsParam(at)) params_.insert(at);
      const TorchNode* const node = graph_.Producer(at);
      if (node == nullptr || !nodes_.insert(node).second) continue;
      if (TorchConstants::ReadsNoValue(node->op)) continue;
      for (const auto& [name, argument] : node->inputs) {
        for (const std::string& tensor : argument.tensors) {
          if (!tensor.empty()) open.push_back(tensor);
        }
      }
    }
  }

  // The values on which a gradient goes to a parameter.
  void FindTrained() {
    const TorchProgram& program = graph_.program();
    for (const auto& [value, name] : program.params) {
      if (program.frozen.count(value) == 0) trained_.insert(value);
    }
    for (const TorchNode& node : program.nodes) {
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& input) {
        return std::any_of(input.second.tensors.begin(), input.second.tensors.end(),
                           [&](const std::string& of) { return trained_.count(of) > 0; });
      });
      if (any && !graph_.constants().Is(node.outputs.front())) {
        trained_.insert(node.outputs.begin(), node.outputs.end());
      }
    }
  }

  absl::Status CheckModes(const TorchNode& node) const {
    if (node.autocast) return graph_.Unknown(node, "it runs under torch.autocast");
    const bool carries =
        std::any_of(node.outputs.begin(), node.outputs.end(), [this](const std::string& output) {
          return Precision(TypeOf(output)) > 0 && trained_.count(output) > 0;
        });
    if (!carries) return absl::OkStatus();
    if (node.no_grad)
      return graph_.Unknown(node, "it runs under torch.no_grad, which stops gradients");
    if (node.op == "detach" || node.op == "detach_")
      return graph_.Unknown(node, "it stops gradients");
    return absl::OkStatus();
  }

  // A run computes in a single type, so no value may be rounded more than the narrowest parameters.
  // Tokens stay whole numbers wide enough for any vocabulary.
  absl::Status CheckType(const TorchNode& node, const std::string& output) const {
    const TorchType type = TypeOf(output);
    const int precision = Precision(type);
    if (precision > 0) {
      if (precision >= narrowest_) return absl::OkStatus();
      return graph_.Unknown(
          node, absl::StrCat("its result is ", NameOf(type), ", narrower than every parameter"));
    }
    if (type != TorchType::kBool && !HoldsTokens(type))
      return graph_.Unknown(node, absl::StrCat("its result is ", NameOf(type)));
    const bool has_rule =
        type == TorchType::kBool || std::find(std::begin(kWholeOfFloats), std::end(kWholeOfFloats),
                                              node.op) != std::end(kWholeOfFloats);
    if (truths_ && has_rule) return absl::OkStatus();
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& tensor : argument.tensors) {
        const bool from_float = !tensor.empty() && Precision(TypeOf(tensor)) > 0;
        if (from_float && !graph_.constants().Is(tensor))
          return graph_.Unknown(
              node, absl::StrCat("its result is ", NameOf(type), ", of a value with gradients"));
      }
    }
    return absl::OkStatus();
  }

  // Two parameters in the same memory would be trained as one here, but have two gradients in
  // torch.
  absl::Status CheckMemory() const {
    struct Range {
      int64_t first, end;
      std::string name;
    };
    std::map<std::string, std::vector<Range>> files;
    for (const std::string& value : params_) {
      const std::string& name = graph_.program().params.at(value);
      const auto tensor = archive_.tensors().find(name);
      if (tensor == archive_.tensors().end() || tensor->second.elements() == 0) continue;
      Range range{tensor->second.offset, tensor->second.offset + 1, name};
      for (size_t d = 0; d < tensor->second.sizes.size(); ++d)
        range.end += (tensor->second.sizes[d] - 1) * tensor->second.strides[d];
      files[tensor->second.file].push_back(range);
    }
    for (auto& [file, ranges] : files) {
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return a.first < b.first; });
      for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].first >= ranges[i - 1].end) continue;
        return absl::UnimplementedError(absl::StrCat(
            "parameters ", Quoted(ranges[i - 1].name), " and ", Quoted(ranges[i].name),
            " are two, with a gradient each, in one memory: give each its own, or make them one"));
      }
    }
    return absl::OkStatus();
  }

  const TorchGraph& graph_;
  const Pt2Archive& archive_;
  const bool truths_;
  std::set<const TorchNode*> nodes_;
  std::set<std::string> params_;
  std::set<std::string> trained_;  // values
  int narrowest_ = 0;              // precision of the parameters
};

}  // namespace

absl::Status CheckEffects(const TorchGraph& graph, const Pt2Archive& archive,
                          const std::vector<std::string>& values, bool truths) {
  return EffectsWalk(graph, archive, values, truths).Check();
}

}  // namespace stringline
