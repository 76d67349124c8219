#include "schedlang/sim/group_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "schedlang/plan/group_order.h"
#include "schedlang/sim/gathered_parts.h"

namespace stringline {
namespace {

// The parts of a kind of group, from its start: the same for every microbatch.
struct GroupParts {
  std::vector<PartTime> times;
  int64_t length_ns = 0;
};

// The moment `ns` of an event that begins at start_ns, stretched from cost_ns to length_ns.
int64_t Stretched(int64_t start_ns, int64_t ns, int64_t cost_ns, int64_t length_ns) {
  if (length_ns == cost_ns) return start_ns + ns;
  const double share = static_cast<double>(ns) / static_cast<double>(cost_ns);
  return start_ns + std::llround(share * static_cast<double>(length_ns));
}

class PartWriter {
 public:
  PartWriter(const Plan& plan, const Wiring& wiring, const CostModel& costs, Timeline* timeline)
      : plan_(plan), wiring_(wiring), costs_(costs), timeline_(timeline) {}

  void Run() {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind) || plan_.actions[i].joined) continue;
      const auto group = GroupAt(absl::MakeConstSpan(plan_.actions), i);
      const Event& event = timeline_->events[i];
      if (WaitsInParts(plan_, wiring_, costs_, timeline_->events, i, event.start_ns)) {
        Write(
            Made(PartsBesideGathers(plan_, wiring_, costs_, timeline_->events, i, event.start_ns)),
            event.start_ns, event.end_ns, i, group.size());
      } else if (OverlapsInParts(plan_, costs_, group)) {
        Write(PartsOf(group), event.start_ns, event.end_ns, i, group.size());
      } else if (PairOf(group).forward == nullptr) {
        WriteInARow(i, group);
      }
    }
  }

 private:
  // Actions of a group without overlap: each has its share of the group's time.
  void WriteInARow(uint32_t begin, absl::Span<const Action> group) {
    const Event& event = timeline_->events[begin];
    const int64_t length_ns = event.end_ns - event.start_ns;
    const int64_t cost_ns = GroupCost(costs_, group);
    const auto until = [&](int64_t ns) {
      return Stretched(event.start_ns, ns, cost_ns, length_ns);
    };
    int64_t before_ns = 0;
    for (uint32_t k = 0; k < group.size(); ++k) {
      const int64_t own_ns = GroupCost(costs_, group.subspan(k, 1));
      if (own_ns > 0 && costs_.by_parts[static_cast<int>(group[k].kind)]) {
        Write(PartsOf(group.subspan(k, 1)), until(before_ns), until(before_ns + own_ns), begin + k,
              1);
      }
      before_ns += own_ns;
    }
  }

  // The parts of a group that overlaps, or of an action alone.
  const GroupParts& PartsOf(absl::Span<const Action> group) {
    const auto [slot, is_new] = known_.try_emplace(KeyOf(group));
    if (is_new) slot->second = Made(PartsOfGroup(plan_, costs_, group));
    return slot->second;
  }

  static GroupParts Made(std::vector<PartTime> times) {
    GroupParts parts{std::move(times)};
    for (const PartTime& part : parts.times) {
      parts.length_ns = std::max(parts.length_ns, part.end_ns);
    }
    std::stable_sort(parts.times.begin(), parts.times.end(),
                     [](const auto& x, const auto& y) { return x.start_ns < y.start_ns; });
    return parts;
  }

  // The group's actions have the events from `first` on, one each, in their order.
  void Write(const GroupParts& parts, int64_t start_ns, int64_t end_ns, uint32_t first,
             size_t actions) {
    const auto at = [&](int64_t ns) {
      return Stretched(start_ns, ns, parts.length_ns, end_ns - start_ns);
    };
    for (uint32_t k = 0; k < actions; ++k) {
      for (const PartTime& part : parts.times) {
        if (part.start_ns == part.end_ns || part.of != k) continue;
        timeline_->parts.push_back(
            {first + k, part.part, part.layer, at(part.start_ns), at(part.end_ns), part.chunk});
      }
    }
  }

  const Plan& plan_;
  const Wiring& wiring_;
  const CostModel& costs_;
  Timeline* const timeline_;
  std::map<GroupKey, GroupParts> known_;
};

}  // namespace

void AddParts(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
              Timeline* timeline) {
  const bool cut = std::any_of(costs.parts.begin(), costs.parts.end(),
                               [](const PartCosts& parts) { return parts.layers > 0; });
  if (cut) PartWriter(lowered, wiring, costs, timeline).Run();
}

}  // namespace stringline
