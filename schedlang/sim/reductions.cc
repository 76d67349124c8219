#include "schedlang/sim/reductions.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/parts.h"
#include "schedlang/sim/gathered_parts.h"

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

namespace {

// The ends of the weight gradients of the action `giver`, from its group's start, the first one
// first: of chunks the last.
std::vector<int64_t> WeightGradientEnds(const Plan& plan, const Wiring& wiring,
                                        const CostModel& costs, absl::Span<const Event> events,
                                        uint32_t giver) {
  uint32_t begin = giver;
  while (plan.actions[begin].joined) --begin;
  std::map<std::pair<int, int>, int64_t> ends;  // by part and layer
  for (const PartTime& part :
       PartsBesideGathers(plan, wiring, costs, events, begin, events[begin].start_ns)) {
    if (part.of != giver - begin || RowOfPart(part.part).of != ActionKind::kWeightGradient)
      continue;
    int64_t& end_ns = ends[{part.part, part.layer}];
    end_ns = std::max(end_ns, part.end_ns);
  }
  std::vector<int64_t> ends_ns;
  for (const auto& [part, end_ns] : ends) ends_ns.push_back(end_ns);
  std::sort(ends_ns.begin(), ends_ns.end());
  return ends_ns;
}

}  // namespace

ReductionTimes ReductionInside(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                               absl::Span<const Event> events, uint32_t reduce, int64_t cost_ns) {
  const uint32_t giver = wiring.meeters[reduce], after = wiring.wires[reduce].after;
  const int64_t after_ns = after == kNoAction ? 0 : events[after].end_ns;
  const ReductionTimes behind{after_ns, after_ns + cost_ns};
  if (giver == kNoAction) return behind;
  const Event& event = events[giver];
  const int64_t buckets = BucketsOf(costs, event.stage);
  if (buckets == 1) return behind;
  const int64_t later_ns = LaterBucketNs(cost_ns, buckets);
  if (!IsCut(costs, event.stage)) {
    if (!IsAlone(plan, giver)) return behind;
    return {event.start_ns + FirstBucketNs(event.worked_ns(), buckets),
            std::max(event.start_ns + FirstBucketNs(event.worked_ns(), buckets) + cost_ns,
                     event.end_ns + later_ns)};
  }
  if (!TakesItsParts(costs)) return behind;
  const std::vector<int64_t> ends_ns = WeightGradientEnds(plan, wiring, costs, events, giver);
  const auto parts = static_cast<int64_t>(ends_ns.size());
  const auto given_ns = [&](int64_t bucket) {
    return event.start_ns + ends_ns[static_cast<size_t>(PartOfBucket(bucket, buckets, parts))];
  };
  ReductionTimes times{given_ns(0), 0};
  for (int64_t k = 0; k < buckets; ++k) {
    const int64_t left_ns = k == 0 ? cost_ns : (buckets - k) * later_ns;
    times.end_ns = std::max(times.end_ns, given_ns(k) + left_ns);
  }
  return times;
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
