// What copies of a pipeline share out among themselves instead of each having all of it: the word
// `sharding` of run files and cost files. The first three rows of ZeRO (Rajbhandari et al. 2020)
// are a row each, and so is what FSDP does:
//
//   none        nothing; gradients are summed over all copies
//   optimizer   the optimizer's state: a copy steps its share of the parameters, and after the step
//               all gather the others'                                                   (ZeRO-1)
//   gradients   that, and reduced gradients: a copy gets the sums of its share only      (ZeRO-2)
//   parameters  that, and parameters: gathered by UNSHARD, dropped by RESHARD     (ZeRO-3, FSDP)
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
};  // each has the former
inline constexpr const char* kShardings[] = {"none", "optimizer", "gradients", "parameters"};

inline const char* NameOf(Sharding sharding) { return kShardings[static_cast<int>(sharding)]; }

inline std::optional<Sharding> ReadSharding(absl::string_view word) {
  for (int k = 0; k < 4; ++k) {
    if (word == kShardings[k]) return static_cast<Sharding>(k);
  }
  return std::nullopt;
}

// What a plan says of that.
struct CollectiveChoice {
  bool gathers = false;  // UNSHARD and RESHARD
  bool reduces = false;  // REDUCE_GRAD
  // Stages that a rank has gathered at once: that which it works on, and the next one, so that
  // gathers go one stage ahead.
  int resident = 2;

  bool any() const { return gathers || reduces; }
};

// What so many copies of a pipeline need: sums where there are two, gathers where they share the
// parameters out. Predictions and runs are lowered by this (lower/collectives.h).
inline CollectiveChoice CollectivesFor(Sharding sharding, int64_t copies) {
  return {.gathers = copies > 1 && sharding == Sharding::kParameters, .reduces = copies > 1};
}

}  // namespace stringline
