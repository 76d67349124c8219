// Ranks beyond their capacity, in words and as JSON.
#pragma once

#include <ostream>

#include "schedlang/report/memory_curve.h"
#include "tools/io/json.h"

namespace stringline {

// A line for each rank, behind a blank line; nothing for an empty list.
void PrintOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, std::ostream& out);

// `memory_capacity`, if known, and `overfull`: for each rank `{rank, peak, at_us, from_us}`.
void AddOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, Json* json);

}  // namespace stringline
