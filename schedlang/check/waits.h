// The wait-for graph, and a shortest cycle in it.
#pragma once

#include <vector>

namespace stringline {

// waits_for[n]: the nodes for which n waits. Returns the nodes of a shortest cycle in the order of
// their waits, beginning with the lowest; among several cycles, the cycle with the lowest first
// node. Empty if the graph is acyclic. Searches from at most `starts` nodes, lowest first: enough
// for a shortest cycle of graphs up to that size, and for some cycle of a larger graph if a low
// node lies on a cycle.
std::vector<int> ShortestCycle(const std::vector<std::vector<int>>& waits_for, int starts = 4096);

}  // namespace stringline
