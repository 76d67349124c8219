#include "schedlang/report/collective_waits.h"

#include <algorithm>

#include "schedlang/plan/buckets.h"

namespace stringline {
namespace {

// When the needs of the group that begins here are met: the gathers of its parts, and all else.
struct GroupNeeds {
  int64_t gathered_ns = 0;
  int64_t others_ns = 0;
};

GroupNeeds NeedsOf(const Plan& plan, const std::vector<Event>& events, const Wiring& wiring,
                   uint32_t group) {
  GroupNeeds needs;
  const auto end_of = [&](uint32_t event) { return event == kNoAction ? 0 : events[event].end_ns; };
  const size_t parts = GroupAt(absl::MakeConstSpan(plan.actions), group).size();
  for (uint32_t i = group; i < group + parts; ++i) {
    const Wire& wire = wiring.wires[i];
    if (wire.gathered != kNoAction) {
      needs.gathered_ns = std::max(needs.gathered_ns, GatheredNs(events[wire.gathered]));
    }
    needs.others_ns = std::max({needs.others_ns, end_of(wire.input), end_of(wire.gradient)});
    const CopyWire copy = wiring.CopyOf(i);
    needs.others_ns = std::max({needs.others_ns, end_of(copy.source), end_of(copy.freed)});
    wiring.ForFurtherWaits(
        i, [&](uint32_t before) { needs.others_ns = std::max(needs.others_ns, end_of(before)); });
  }
  for (const ListedWait& wait : wiring.WaitsBefore(group)) {
    needs.others_ns = std::max(needs.others_ns, end_of(wait.until));
  }
  return needs;
}

CollectiveWait WaitOf(const Plan& plan, const std::vector<Event>& events, const Wiring& wiring,
                      int rank) {
  CollectiveWait wait;
  int64_t computed_ns = 0, reduced_ns = 0;
  for (uint32_t i = plan.first[rank]; i < plan.first[rank + 1]; ++i) {
    const Event& event = events[i];
    if (event.kind == ActionKind::kUnshard) wait.gather_ns += event.worked_ns();
    if (event.kind == ActionKind::kReduceGrad) {
      wait.reduce_ns += event.worked_ns();
      reduced_ns = std::max(reduced_ns, event.end_ns);
    }
    if (!IsCompute(event.kind)) continue;
    if (!event.joined) {
      const GroupNeeds needs = NeedsOf(plan, events, wiring, i);
      const int64_t ready_ns = std::max(computed_ns, needs.others_ns);
      const int64_t held_ns = std::min(event.start_ns, needs.gathered_ns);
      const bool updates = event.kind == ActionKind::kUpdate;  // waits for its gradients' sum
      (updates ? wait.reduce_wait_ns : wait.gather_wait_ns) +=
          std::max<int64_t>(held_ns - ready_ns, 0) + event.waited_ns;
    }
    computed_ns = std::max(computed_ns, event.end_ns);
  }
  wait.reduce_wait_ns = std::max<int64_t>(reduced_ns - computed_ns, 0);
  return wait;
}

}  // namespace

CollectiveWaits MeasureCollectives(const Plan& lowered, const Timeline& timeline,
                                   const Wiring& wiring) {
  CollectiveWaits waits;
  for (int r = 0; r < lowered.ranks(); ++r) {
    waits.ranks.push_back(WaitOf(lowered, timeline.events, wiring, r));
    for (int64_t CollectiveWait::*const sum :
         {&CollectiveWait::gather_ns, &CollectiveWait::gather_wait_ns, &CollectiveWait::reduce_ns,
          &CollectiveWait::reduce_wait_ns}) {
      waits.all.*sum += waits.ranks.back().*sum;
    }
  }
  return waits;
}

CostModel WithoutCollectives(CostModel costs) {
  std::fill(costs.unshard.begin(), costs.unshard.end(), 0);
  std::fill(costs.reduce.begin(), costs.reduce.end(), 0);
  return costs;
}

int64_t AfterStepNs(const Plan& plan, const CostModel& costs) {
  if (HasUpdates(plan)) return 0;
  std::vector<int64_t> of_ranks(plan.ranks(), 0);
  for (size_t s = 0; s < costs.gather_updated.size(); ++s) {
    of_ranks[plan.stages[s].rank.value] += costs.gather_updated[s];
  }
  return of_ranks.empty() ? 0 : *std::max_element(of_ranks.begin(), of_ranks.end());
}

}  // namespace stringline
