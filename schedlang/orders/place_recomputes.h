// `then recompute by e`: every stage recomputes, and its R actions are placed.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

// The R of a microbatch comes right before the action of its rank that stands ahead[rank] actions
// (groups count as one) before its B or I, but behind its F. The plan has no R; `ahead` is not
// negative. An R has the place and the iteration of its B or I.
Plan PlaceRecomputes(const Plan& plan, const std::vector<int64_t>& ahead);

}  // namespace stringline
