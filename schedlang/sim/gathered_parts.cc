#include "schedlang/sim/gathered_parts.h"

#include <algorithm>

#include "schedlang/plan/buckets.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

// The UNSHARD for whose buckets parts of the action wait, if its group starts at start_ns; or
// kNoAction.
uint32_t AwaitedGather(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                       absl::Span<const Event> events, uint32_t i, int64_t start_ns) {
  if (wiring.meeters.empty() || !IsCut(costs, plan.actions[i].stage)) return kNoAction;
  if (plan.actions[i].kind == ActionKind::kRecompute) return kNoAction;  // it begins with all
  const uint32_t gather = GatherMetBy(plan, wiring, i);
  if (gather == kNoAction) return kNoAction;
  const Event& event = events[gather];
  return event.first_bucket_ns > 0 && event.end_ns > start_ns ? gather : kNoAction;
}

// By bucket of the UNSHARD, the time from start_ns until it is there.
std::vector<int64_t> BucketsFrom(const Event& unshard, int64_t buckets, int64_t start_ns) {
  const int64_t later_ns = LaterBucketNs(unshard.end_ns - unshard.start_ns, buckets);
  std::vector<int64_t> there_ns;
  for (int64_t k = 0; k < buckets; ++k) {
    there_ns.push_back(std::max<int64_t>(unshard.first_bucket_ns + k * later_ns - start_ns, 0));
  }
  return there_ns;
}

}  // namespace

int64_t BucketsMet(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                   uint32_t unshard) {
  const StageId stage = plan.actions[unshard].stage;
  const int64_t buckets = BucketsOf(costs, stage);
  const uint32_t meeter = wiring.meeters[unshard];
  if (buckets == 1 || meeter == kNoAction) return 1;
  const bool meets = IsCut(costs, stage) ? TakesItsParts(costs) : IsAlone(plan, meeter);
  return meets ? buckets : 1;
}

bool WaitsInParts(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                  absl::Span<const Event> events, uint32_t begin, int64_t start_ns) {
  if (wiring.meeters.empty()) return false;
  const auto group = GroupAt(absl::MakeConstSpan(plan.actions), begin);
  for (uint32_t i = begin; i < begin + group.size(); ++i) {
    if (AwaitedGather(plan, wiring, costs, events, i, start_ns) != kNoAction) return true;
  }
  return false;
}

std::vector<PartTime> PartsBesideGathers(const Plan& plan, const Wiring& wiring,
                                         const CostModel& costs, absl::Span<const Event> events,
                                         uint32_t begin, int64_t start_ns) {
  const auto group = GroupAt(absl::MakeConstSpan(plan.actions), begin);
  std::vector<PartTime> times;
  // Side by side, or one action after the other.
  const size_t together = OverlapsInParts(plan, costs, group) ? group.size() : 1;
  int64_t from_ns = 0;
  for (size_t first = 0; first < group.size(); first += together) {
    std::vector<std::vector<int64_t>> there_ns(together);
    std::vector<PricedMember> members;
    for (size_t k = 0; k < together; ++k) {
      const Action& action = group[first + k];
      const uint32_t gather =
          AwaitedGather(plan, wiring, costs, events, begin + static_cast<uint32_t>(first + k),
                        start_ns + from_ns);
      if (gather != kNoAction) {
        there_ns[k] =
            BucketsFrom(events[gather], BucketsOf(costs, action.stage), start_ns + from_ns);
      }
      members.push_back(
          {ProgramOf(action.kind), &costs.parts[action.stage.value], action.stage, there_ns[k]});
    }
    const auto own = group.subspan(first, together);
    int64_t end_ns = from_ns;
    for (PartTime part : RunGroup(members, FindOverlap(plan, own), RulesOf(plan, costs))) {
      part.of = static_cast<uint8_t>(part.of + first);
      part.start_ns += from_ns;
      part.end_ns += from_ns;
      end_ns = std::max(end_ns, part.end_ns);
      times.push_back(part);
    }
    from_ns = end_ns;
  }
  return times;
}

}  // namespace stringline
