// Who waits for whom, as a graph, and the shortest circle in it.
#pragma once

#include <vector>

namespace stringline {

// waits_for[n]: the nodes that n waits for. Returns the nodes of a shortest circle in the order in
// which they wait, beginning with the lowest of them; of several, the one with the lowest first
// node. Empty when there is none. Looks from at most `starts` nodes, lowest first: enough for the
// shortest circle of graphs up to that size, and for some circle of larger ones whose low nodes lie
// on one.
std::vector<int> ShortestCircle(const std::vector<std::vector<int>>& waits_for, int starts = 4096);

}  // namespace stringline
