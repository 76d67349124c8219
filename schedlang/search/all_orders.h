// Enumerates all orders, for objectives that a later start may improve.
#pragma once

#include <cstdint>

#include "schedlang/search/exact.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

// Improves `proven` until it meets its bound, all orders are tried, or it has more than
// `most_nodes` nodes. Every order comes once: a rank announces its next group before the group can
// be done, and groups that can be done are done first. A cycle of waiting ranks ends an attempt.
void TryAllOrders(const Problem& problem, int64_t most_nodes, Proven* proven);

}  // namespace stringline::search
