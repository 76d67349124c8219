// The order with the least memory: every microbatch goes forth and back before the next begins.
//
// It holds exactly LeastCapacity (lower_bound.h), so it exists if any order does.
#pragma once

#include "schedlang/search/problem.h"

namespace stringline::search {

// Complete if the capacities allow it. Uses B if allowed, else I and W.
Words OneAtATime(const Problem& problem);

}  // namespace stringline::search
