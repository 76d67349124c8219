#include "schedlang/check/waits.h"

#include <algorithm>

namespace stringline {
namespace {

// Breadth-first search from `start` back to itself, over nodes not below it; empty if the shortest
// way has `limit` nodes or more.
std::vector<int> CycleThrough(int start, const std::vector<std::vector<int>>& waits_for,
                              size_t limit, std::vector<int>* came_from) {
  std::fill(came_from->begin(), came_from->end(), -1);
  std::vector<int> frontier = {start};
  for (size_t length = 1; !frontier.empty() && length < limit; ++length) {
    std::vector<int> next;
    for (const int node : frontier) {
      for (const int other : waits_for[node]) {
        if (other == start) {
          std::vector<int> cycle = {node};
          while (cycle.back() != start) cycle.push_back((*came_from)[cycle.back()]);
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (other < start || (*came_from)[other] >= 0) continue;
        (*came_from)[other] = node;
        next.push_back(other);
      }
    }
    frontier = std::move(next);
  }
  return {};
}

}  // namespace

std::vector<int> ShortestCycle(const std::vector<std::vector<int>>& waits_for, int starts) {
  std::vector<int> best;
  std::vector<int> came_from(waits_for.size());
  for (size_t node = 0; node < waits_for.size() && starts > 0; ++node) {
    if (waits_for[node].empty()) continue;
    --starts;
    const size_t limit = best.empty() ? waits_for.size() + 1 : best.size();
    std::vector<int> cycle = CycleThrough(static_cast<int>(node), waits_for, limit, &came_from);
    if (!cycle.empty()) best = std::move(cycle);
  }
  return best;
}

}  // namespace stringline
