// The parts of a stage, cut at its communication: the one table of them.
//
// A stage is cut at its all-to-alls, or at the collectives of its tensor-parallel ranks. Each of
// its L layers with such communication has four parts, and everything behind the last layer is one
// more, `post` (the final residual, other layers behind it, head and loss). A part is on one of two
// lanes, and comes after one other part:
//
//   F      per layer   attn (compute)  dispatch (network)  experts (compute)  combine (network)
//          once        post (compute), after the last layer's combine
//   I      the same from behind: post, then from the last layer to the first combine, experts,
//          dispatch, attn. The I of a whole B alike; the names of both begin with B.
//   W      W.post, W.experts, W.attn (compute): each after the input gradient of its part
//
// People may write the words for a dense layer of tensor-parallel ranks (kDenseWords): its `mlp` is
// experts, `scatter` dispatch (the reduce-scatter behind attention, the gather before the mlp) and
// `gather` combine (the reduce-scatter behind the mlp, the gather before the next attention).
//
// A stage without collectives has L = 0: its `post` is all of it, and B.post all of a whole B. (The
// cut is that of Megatron-LM's combined 1F1B and of the DeepSeek-V3 Technical Report, figure 4.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class Lane : uint8_t { kCompute, kNetwork };

enum Part : uint8_t {
  kFAttn,
  kFDispatch,
  kFExperts,
  kFCombine,
  kFPost,
  kBAttn,
  kBDispatch,
  kBExperts,
  kBCombine,
  kBPost,
  kWAttn,
  kWExperts,
  kWPost
};
inline constexpr int kParts = 13;

// The layer of a part's predecessor, for a part in layer l.
enum class After : uint8_t {
  kNothing,      // no predecessor: the first part of all
  kSameLayer,    // in layer l, or once as the other
  kLayerBefore,  // in layer l - 1, nothing for l = 0; for a part without layers: the last layer
  kLayerBehind,  // in layer l + 1; for the last layer B.post
};

struct PartRow {
  const char* name;  // "F.attn"
  ActionKind of;     // F, I or W: a B is an I and a W
  Lane lane;
  bool once;  // once a stage, not per layer
  After where;
  Part after;           // the predecessor, in the layer that `where` says
  const char* meaning;  // the cost of the same name
};
const PartRow& RowOfPart(int part);

inline const char* PartName(int part) { return RowOfPart(part).name; }
inline Lane LaneOf(int part) { return RowOfPart(part).lane; }

// The kind whose parts an action of this kind has: an R has those of an F.
constexpr ActionKind ProgramOf(ActionKind kind) {
  return kind == ActionKind::kRecompute ? ActionKind::kForward : kind;
}
// True if an action of the kind runs the program, F, I or W: a B in parts is an I and a W.
constexpr bool RunsProgram(ActionKind kind, ActionKind program) {
  return Performs(kind, program) ||
         (kind == ActionKind::kBackward && program == ActionKind::kInputGradient);
}
inline bool RunsPart(ActionKind kind, int part) { return RunsProgram(kind, RowOfPart(part).of); }

// A part of a layer. Layers count from the stage's first layer, for F, I and W alike, so all parts
// of a layer have the same number; a part without layers has 0.
struct LayerPart {
  uint8_t part = 0;
  int32_t layer = 0;
  uint8_t chunk = 0;  // of the microbatch (Plan::chunks)
  friend bool operator==(const LayerPart&, const LayerPart&) = default;
};

// The predecessor of a part in a stage of so many layers; nothing for the first part.
std::optional<LayerPart> PartBefore(LayerPart of, int layers);

// "F.attn", or "F.attn.2" in layer 2, "F.attn/1" of chunk 1; and back. Nothing for an unknown part
// or another spelling
// ("F.attn.0", "F.post.1").
std::string Print(LayerPart part);
std::optional<LayerPart> ReadLayerPart(absl::string_view text);

// Words for parts of a dense layer.
struct DenseWord {
  const char* word;
  const char* part;
};
inline constexpr DenseWord kDenseWords[] = {
    {"mlp", "experts"}, {"scatter", "dispatch"}, {"gather", "combine"}};
// The short name that such a word stands for; any other word itself.
absl::string_view ShortNameOfWord(absl::string_view word);

// The part with the short name `name` in an action of that kind (attn in B: kBAttn), or nothing.
std::optional<Part> FindPart(ActionKind of, absl::string_view name);
// "attn" of F.attn.
inline absl::string_view ShortName(int part) { return absl::string_view(PartName(part)).substr(2); }

}  // namespace stringline
