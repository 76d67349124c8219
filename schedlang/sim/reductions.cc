#include "schedlang/sim/reductions.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stringline {

int64_t ReductionNs(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                    uint32_t meeting) {
  int64_t most_ns = 0;
  if (costs.reduce.empty()) return most_ns;
  for (const auto& member : wiring.reductions.of(static_cast<int>(meeting))) {
    most_ns = std::max(most_ns, costs.reduce[plan.actions[member.action].stage.value]);
  }
  return most_ns;
}

std::string ReductionCycle(const Plan& plan, const Wiring& wiring,
                           absl::Span<const uint32_t> waiting) {
  const size_t ranks = waiting.size();
  // Repeatedly drop ranks that wait for no waiting rank; what remains are cycles.
  std::vector<size_t> next(ranks, ranks);
  std::vector<bool> left(ranks);
  for (size_t r = 0; r < ranks; ++r) left[r] = waiting[r] != kNoAction;
  const auto missing = [&](uint32_t reduction) {
    const auto meeting = static_cast<int>(wiring.wires[reduction].meeting);
    for (const auto& [member, comes] : wiring.reductions.of(meeting)) {
      const auto other = static_cast<size_t>(plan.stage(plan.actions[member].stage).rank.value);
      if (comes && left[other] && waiting[other] < member) return other;
    }
    return ranks;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < ranks; ++r) {
      if (!left[r]) continue;
      next[r] = missing(waiting[r]);
      if (next[r] < ranks) continue;
      left[r] = false;
      changed = true;
    }
  }
  size_t at = 0;
  while (at < ranks && !left[at]) ++at;
  if (at == ranks) return "";
  for (size_t steps = 0; steps < ranks; ++steps) at = next[at];  // now on a cycle
  size_t first = at;
  for (size_t r = next[at]; r != at; r = next[r]) first = std::min(first, r);
  std::string text;
  size_t r = first;
  do {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", r,
                    text.empty() ? " waits forever at " : " waits at ",
                    Print(plan, plan.actions[waiting[r]]), " for rank ", next[r],
                    ", which holds a replica of the stage");
    r = next[r];
  } while (r != first);
  return text;
}

}  // namespace stringline
