// Ranks that hold more than they can, in words and as JSON.
#pragma once

#include <ostream>

#include "schedlang/sim/memory_curve.h"
#include "tools/json.h"

namespace stringline {

// A line for each, behind a blank one; nothing for none.
void PrintOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, std::ostream& out);

// `memory_capacity`, where it is known, and `overfull`: for each
// `{rank, peak, at_us, from_us}`.
void AddOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, Json* json);

}  // namespace stringline
