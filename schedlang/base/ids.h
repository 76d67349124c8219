// Ids of ranks, stages and microbatches.
//
// They do not mix: a StageId is not a RankId, and neither is an int. `value` counts from 0; a
// default-made id is -1, "none".
#pragma once

#include <compare>
#include <cstdint>

namespace stringline {

template <typename Tag>
struct Id {
  int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(int32_t v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RankId = Id<struct RankTag>;
using StageId = Id<struct StageTag>;
using MicrobatchId = Id<struct MicrobatchTag>;

}  // namespace stringline
