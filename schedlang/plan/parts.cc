#include "schedlang/plan/parts.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr ActionKind kOfF = ActionKind::kForward;
constexpr ActionKind kOfI = ActionKind::kInputGradient;
constexpr ActionKind kOfW = ActionKind::kWeightGradient;
constexpr Lane kOnCompute = Lane::kCompute, kOnNetwork = Lane::kNetwork;

// In the order of Part.
constexpr PartRow kPartTable[] = {
    {"F.attn", kOfF, kOnCompute, false, After::kLayerBefore, kFCombine,
     "part of F, of one layer, as are the next ones"},
    {"F.dispatch", kOfF, kOnNetwork, false, After::kSameLayer, kFAttn,
     "its tokens to the experts, or between attention and mlp (network)"},
    {"F.experts", kOfF, kOnCompute, false, After::kSameLayer, kFDispatch,
     "the experts, or the mlp of a dense layer: also F.mlp, F.scatter, F.gather"},
    {"F.combine", kOfF, kOnNetwork, false, After::kSameLayer, kFExperts,
     "the tokens back (network)"},
    {"F.post", kOfF, kOnCompute, true, After::kLayerBefore, kFCombine,
     "part of F, once: what comes behind the last layer"},
    {"B.attn", kOfI, kOnCompute, false, After::kSameLayer, kBDispatch,
     "part of B's input gradient"},
    {"B.dispatch", kOfI, kOnNetwork, false, After::kSameLayer, kBExperts,
     "gradients back from the experts (network)"},
    {"B.experts", kOfI, kOnCompute, false, After::kSameLayer, kBCombine,
     "the experts' input gradient"},
    {"B.combine", kOfI, kOnNetwork, false, After::kLayerBehind, kBAttn,
     "gradients to the experts (network)"},
    {"B.post", kOfI, kOnCompute, true, After::kNothing, kBPost, "the input gradient of F.post"},
    {"W.attn", kOfW, kOnCompute, false, After::kSameLayer, kBAttn, "part of B's weight gradient"},
    {"W.experts", kOfW, kOnCompute, false, After::kSameLayer, kBExperts,
     "the experts' weight gradient"},
    {"W.post", kOfW, kOnCompute, true, After::kSameLayer, kBPost, "the weight gradient of F.post"},
};
static_assert(sizeof(kPartTable) / sizeof(kPartTable[0]) == kParts);

}  // namespace

const PartRow& RowOfPart(int part) {
  SL_CHECK(part >= 0 && part < kParts) << part;
  return kPartTable[part];
}

std::optional<LayerPart> PartBefore(LayerPart of, int layers) {
  const PartRow& row = RowOfPart(of.part);
  switch (row.where) {
    case After::kNothing:
      break;
    case After::kSameLayer:
      return LayerPart{row.after, of.layer};
    case After::kLayerBefore: {
      const int before = (row.once ? layers : of.layer) - 1;
      if (before >= 0) return LayerPart{row.after, before};
      break;
    }
    case After::kLayerBehind:
      if (of.layer + 1 == layers) return LayerPart{kBPost, 0};
      return LayerPart{row.after, of.layer + 1};
  }
  return std::nullopt;
}

std::string Print(LayerPart part) {
  return absl::StrCat(PartName(part.part), part.layer == 0 ? "" : absl::StrCat(".", part.layer),
                      part.chunk == 0 ? "" : absl::StrCat("/", part.chunk));
}

std::optional<LayerPart> ReadLayerPart(absl::string_view text) {
  int chunk = 0;
  const size_t slash = std::min(text.find('/'), text.size());
  if (slash < text.size() &&
      (!absl::SimpleAtoi(text.substr(slash + 1), &chunk) || chunk < 1 || chunk >= kMostChunks)) {
    return std::nullopt;
  }
  for (int part = 0; part < kParts; ++part) {
    const absl::string_view name = PartName(part);
    if (text.substr(0, slash).substr(0, name.size()) != name) continue;
    LayerPart found{static_cast<uint8_t>(part), 0, static_cast<uint8_t>(chunk)};
    const absl::string_view rest = text.substr(0, slash).substr(name.size());
    if (!rest.empty() && !absl::SimpleAtoi(rest.substr(1), &found.layer)) continue;
    // The text must equal the printed form: no signs, zeros or blanks, and a '.' before the number.
    if (found.layer >= 0 && Print(found) == text && !(RowOfPart(part).once && found.layer > 0)) {
      return found;
    }
  }
  return std::nullopt;
}

absl::string_view ShortNameOfWord(absl::string_view word) {
  for (const DenseWord& row : kDenseWords) {
    if (row.word == word) return row.part;
  }
  return word;
}

std::optional<Part> FindPart(ActionKind of, absl::string_view name) {
  if (of == ActionKind::kBackward) of = ActionKind::kInputGradient;
  for (int part = 0; part < kParts; ++part) {
    if (kPartTable[part].of == of && ShortName(part) == name) return static_cast<Part>(part);
  }
  return std::nullopt;
}

}  // namespace stringline
