// `then offload by e`: what ranks keep long goes to the host's memory in between.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

// The D of a microbatch comes behind the action after its F, so that the copy runs beside that
// action; its U comes right before the action that stands ahead[rank] actions (groups count as one)
// before its R, B or I. A microbatch without an action between its D and its U stays where it is.
// The plan has no copies; `ahead` is not negative. A copy has the place and the iteration of its F.
Plan PlaceCopies(const Plan& plan, const std::vector<int64_t>& ahead);

}  // namespace stringline
