#include "schedlang/sim/own_clock.h"

#include <algorithm>

namespace stringline {

OwnClock::OwnClock(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                   std::vector<Event>* events)
    : plan_(plan),
      wiring_(wiring),
      costs_(costs),
      events_(*events),
      absent_(wiring.meetings.count(), static_cast<uint32_t>(plan.ranks())),
      starts_ns_(absent_.size(), 0),
      costs_ns_(absent_.size(), 0) {
  if (plan.rows.actions.empty()) return;
  come_.resize(plan.actions.size(), 0);
  free_ns_.resize(plan.ranks(), 0);
  for (int r = 0; r < plan.ranks(); ++r) {
    next_.push_back(static_cast<uint32_t>(actions_.size()));
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      if (IsOwnNetwork(plan.actions[i].kind)) actions_.push_back(i);
    }
    last_.push_back(static_cast<uint32_t>(actions_.size()));
  }
}

int64_t OwnClock::CostNs(uint32_t action) const {
  const Action& own = plan_.actions[action];
  const int64_t cost_ns = OfMicrobatch(costs_, own, costs_.own.Of(own.kind, own.stage));
  return costs_.noise.empty() ? cost_ns : costs_.noise.Of(action, cost_ns);
}

void OwnClock::Advance(int rank) {
  uint32_t lacks = kNoAction;
  for (uint32_t& k = next_[rank]; k < last_[rank]; ++k) {
    const uint32_t i = actions_[k];
    int64_t start_ns = free_ns_[rank];
    if (!HasNeeds(i, &start_ns, &lacks)) return;
    if (wiring_.meetings.Of(i) >= 0) return Come(i, start_ns, CostNs(i));
    events_[i].start_ns = start_ns;
    free_ns_[rank] = events_[i].end_ns = start_ns + CostNs(i);
    ended_.push_back(i);
  }
}

void OwnClock::Come(uint32_t action, int64_t start_ns, int64_t cost_ns) {
  if (come_[action]) return;
  come_[action] = 1;
  const auto meeting = static_cast<size_t>(wiring_.meetings.Of(action));
  starts_ns_[meeting] = std::max(starts_ns_[meeting], start_ns);
  costs_ns_[meeting] = std::max(costs_ns_[meeting], cost_ns);
  if (--absent_[meeting] > 0) return;
  for (const uint32_t member : wiring_.meetings.of(static_cast<int>(meeting))) {
    const int rank = RankOf(plan_, plan_.actions[member]).value;
    events_[member].start_ns = starts_ns_[meeting];
    events_[member].end_ns = starts_ns_[meeting] + costs_ns_[meeting];
    if (IsOwnNetwork(plan_.actions[member].kind)) {
      free_ns_[rank] = events_[member].end_ns;
      ++next_[rank];
    }
    ended_.push_back(member);
  }
}

}  // namespace stringline
