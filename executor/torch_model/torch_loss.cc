// The outputs decide: an output without dimensions is a loss, an output of three dimensions holds
// logits, or of two where none has three.
#include "executor/torch_model/torch_loss.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr char kEntropy[] = "cross_entropy_loss";

// Targets may be shifted by a token: cuts and fills leave the remaining targets unchanged.
constexpr const char* kTargetMoves[] = {"slice", "pad", "constant_pad_nd"};
constexpr const char* kTargetLayouts[] = {"view",     "reshape", "_unsafe_view",   "flatten",
                                          "squeeze",  "clone",   "contiguous",     "to",
                                          "_to_copy", "alias",   "lift_fresh_copy"};

bool IsAny(const std::string& op, absl::Span<const char* const> ops) {
  return std::count(ops.begin(), ops.end(), op) > 0;
}

// Follows the targets back to the user's tokens.
absl::Status CheckTargets(const TorchGraph& graph, const TorchNode& loss) {
  constexpr double kIgnored = -100;  // the default of ignore_index: filled targets have no loss
  std::string value = loss.Tensor("target");
  for (const TorchNode* node = graph.Producer(value); node != nullptr;
       node = graph.Producer(value)) {
    const bool fills = node->op == "pad" || node->op == "constant_pad_nd";
    const bool known = IsAny(node->op, kTargetMoves) || IsAny(node->op, kTargetLayouts);
    if (!known || (fills && node->Number("value", 0) != kIgnored) ||
        (node->op == "slice" && node->Number("step", 1) != 1)) {
      return graph.Unknown(*node, "it changes the loss's targets");
    }
    value = node->Tensor("self");
  }
  if (HoldsTokens(graph.program().values.at(value).type)) return absl::OkStatus();
  return graph.Unknown(loss, "its targets are no token numbers");
}

// The logits of a plain cross-entropy, with or without the last token of each sequence.
absl::StatusOr<std::string> LogitsOf(const TorchGraph& graph, const TorchNode& loss) {
  SL_RETURN_IF_ERROR(CheckTargets(graph, loss));
  std::string logits = loss.Tensor("self");
  if (graph.Sizes(logits).size() != 2)
    return graph.Unknown(loss, "its classes are not the last of two dimensions");
  logits = graph.StripRows(logits);
  const TorchNode* const cut = graph.Producer(logits);
  const bool cuts_tokens = cut != nullptr && cut->op == "slice" && cut->Number("dim", 0) == 1 &&
                           cut->Number("start", 0) == 0 && cut->Number("step", 1) == 1;
  if (cuts_tokens && graph.Sizes(cut->Tensor("self")).size() == 3)
    return graph.StripRows(cut->Tensor("self"));
  return logits;
}

}  // namespace

absl::StatusOr<TorchLoss> FindLoss(const TorchGraph& graph) {
  std::set<std::string> of_three, of_two, losses;
  for (const std::string& output : graph.program().outputs) {
    const size_t dimensions = graph.Sizes(output).size();
    const bool counts = IsFloat(graph.program().values.at(output).type);
    const bool is_entropy = graph.Match(output, kEntropy) != nullptr;
    if (counts && (dimensions == 0 || is_entropy)) losses.insert(graph.Strip(output));
    if (counts && dimensions == 3) of_three.insert(graph.StripRows(output));
    if (counts && dimensions == 2) of_two.insert(graph.StripRows(output));
  }
  const std::set<std::string>& logits = of_three.empty() ? of_two : of_three;
  if (losses.size() > 1) {
    return absl::UnimplementedError(
        absl::StrCat("the program gives several losses, '", absl::StrJoin(losses, "' and '"), "'"));
  }
  if (!losses.empty()) {
    const std::string& loss = *losses.begin();
    const TorchNode* const node = graph.Match(loss, kEntropy);
    if (node == nullptr)
      return graph.UnknownValue(loss, "the program's loss is no cross-entropy of logits alone");
    SL_ASSIGN_OR_RETURN(std::string of, LogitsOf(graph, *node));
    return TorchLoss{std::move(of), loss};
  }
  if (logits.empty()) {
    return absl::InvalidArgumentError(
        "the program gives no logits: no output has two or three dimensions");
  }
  if (logits.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the program gives several outputs of ", of_three.empty() ? "two" : "three",
        " dimensions, '", absl::StrJoin(logits, "' and '"), "': export it with logits alone"));
  }
  return TorchLoss{*logits.begin(), ""};
}

}  // namespace stringline
