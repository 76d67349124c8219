// What a stage does, cut where it communicates: the one table of its parts.
//
// A stage is cut at its all-to-alls. Each of its L mixture-of-experts layers has four parts, and
// what lies behind the last layer is one more, `post` (the final residual, dense layers behind it,
// head and loss). A part is on one of two lanes, and comes after one other part:
//
//   F      per layer   attn (compute)  dispatch (network)  experts (compute)  combine (network)
//          once        post (compute), after the last layer's combine
//   I      the same from behind: post, then from the last layer to the first combine, experts,
//          dispatch, attn. The I of a whole B alike; the names of both begin with B.
//   W      W.post, W.experts, W.attn (compute): each after the input gradient of its part
//
// A stage without collectives has L = 0: its `post` is all of it, and B.post all of a whole B. (The
// cut is that of Megatron-LM's combined 1F1B and of the DeepSeek-V3 Technical Report, figure 4.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "schedlang/plan.h"

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

// Where the part that another comes after lies, seen from that other in layer l.
enum class After : uint8_t {
  kNothing,      // it is the first part of all
  kSameLayer,    // in layer l, or once as the other
  kLayerBefore,  // in layer l - 1, nothing for l = 0; of a part that is there once: the last layer
  kLayerBehind,  // in layer l + 1; for the last layer it is B.post
};

struct PartRow {
  const char* name;  // "F.attn"
  ActionKind of;     // F, I or W: a B is an I and a W
  Lane lane;
  bool once;  // once a stage, not per layer
  After where;
  Part after;           // what it comes after, in the layer that `where` says
  const char* meaning;  // of the cost of that name
};
const PartRow& RowOfPart(int part);

inline const char* PartName(int part) { return RowOfPart(part).name; }
inline Lane LaneOf(int part) { return RowOfPart(part).lane; }

// A part of one layer. Layers count from the stage's first one, for F, I and W alike, so that the
// parts of a layer have one number; that of a part that is there once is 0.
struct LayerPart {
  uint8_t part = 0;
  int32_t layer = 0;
  friend bool operator==(const LayerPart&, const LayerPart&) = default;
};

// What must have ended before that part can start, in a stage of so many layers.
std::optional<LayerPart> PartBefore(LayerPart of, int layers);

// "F.attn", or "F.attn.2" in layer 2; and back. Nothing for what is no name of a part, or not as
// printed ("F.attn.0", "F.post.1").
std::string Print(LayerPart part);
std::optional<LayerPart> ReadLayerPart(absl::string_view text);

// The part that is called `name` in an action of that kind (attn in B: kBAttn); nothing if there is
// none.
std::optional<Part> FindPart(ActionKind of, absl::string_view name);
// "attn" of F.attn.
inline absl::string_view ShortName(int part) { return absl::string_view(PartName(part)).substr(2); }

}  // namespace stringline
