// The state that copies of a pipeline share out among themselves instead of each holding all of it:
// the word `sharding` of run files and cost files. The first three rows are ZeRO's stages
// (Rajbhandari et al. 2020), the last also FSDP:
//
//   none        nothing; gradients are summed over all copies
//   optimizer   the optimizer's state: a copy steps its share of the parameters, and after the step
//               all gather the others'                                                   (ZeRO-1)
//   gradients   also reduced gradients: a copy gets the sums of its share only           (ZeRO-2)
//   parameters  also parameters: gathered by UNSHARD, dropped by RESHARD         (ZeRO-3, FSDP)
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace stringline {

enum class Sharding : uint8_t {
  kNone,
  kOptimizer,
  kGradients,
  kParameters
};  // each shares all that its predecessors share
inline constexpr const char* kShardings[] = {"none", "optimizer", "gradients", "parameters"};

inline const char* NameOf(Sharding sharding) { return kShardings[static_cast<int>(sharding)]; }

inline std::optional<Sharding> ReadSharding(absl::string_view word) {
  for (int k = 0; k < 4; ++k) {
    if (word == kShardings[k]) return static_cast<Sharding>(k);
  }
  return std::nullopt;
}

// The collectives in a plan.
struct CollectiveChoice {
  bool gathers = false;  // UNSHARD and RESHARD
  bool reduces = false;  // REDUCE_GRAD
  // The gathered stages that a rank holds at once, the current one among them; 0: as the plan says
  // (Plan::gathers_ahead).
  int resident = 0;

  bool any() const { return gathers || reduces; }
  friend bool operator==(const CollectiveChoice&, const CollectiveChoice&) = default;
};

// The collectives for `copies` copies of a pipeline: reductions for two or more, gathers if copies
// share the parameters out. Predictions and runs are lowered by this (lower/collectives.h).
inline CollectiveChoice CollectivesFor(Sharding sharding, int64_t copies) {
  return {.gathers = copies > 1 && sharding == Sharding::kParameters, .reduces = copies > 1};
}

}  // namespace stringline
