// All orders, one after the other, for objectives that may be the better for a later start.
#pragma once

#include <cstdint>

#include "schedlang/search/exact.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

// Improves `proven` until it meets its bound, all orders are tried, or it has more than
// `most_nodes` nodes. Every order comes once: a rank says what its next group is before that can be
// done; groups that can be done are done first. Ranks that wait in a circle end an attempt.
void TryAllOrders(const Problem& problem, int64_t most_nodes, Proven* proven);

}  // namespace stringline::search
