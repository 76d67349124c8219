// The order that holds least: every microbatch goes forth and back before the next one begins.
//
// It holds LeastCapacity (lower_bound.h) and no more, so it is an order wherever there is one.
#pragma once

#include "schedlang/search/problem.h"

namespace stringline::search {

// Complete where the capacities allow it. Uses B where it may, else I and W.
Words OneAtATime(const Problem& problem);

}  // namespace stringline::search
