#include "schedlang/sim/group_parts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedlang/parts/pair_order.h"

namespace stringline {
namespace {

// The parts of one kind of group, from its start: they are the same for every microbatch.
struct GroupParts {
  std::vector<PartTime> times;
  int64_t length_ns = 0;
};

class PartWriter {
 public:
  PartWriter(const Plan& plan, const CostModel& costs, Timeline* timeline)
      : plan_(plan), costs_(costs), timeline_(timeline) {}

  void Run() {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind) || plan_.actions[i].joined) continue;
      const auto group = GroupAt(absl::MakeConstSpan(plan_.actions), i);
      if (group.size() == 1) {
        if (costs_.by_parts[static_cast<int>(group[0].kind)]) Write(Alone(group[0]), i, i);
        continue;
      }
      const OverlappedPair pair = PairOf(group);
      if (pair.forward == nullptr) continue;
      const GroupParts* const parts = Beside(pair);
      if (parts == nullptr) continue;
      Write(*parts, static_cast<uint32_t>(pair.forward - plan_.actions.data()),
            static_cast<uint32_t>(pair.backward - plan_.actions.data()));
    }
  }

 private:
  const GroupParts& Alone(const Action& action) {
    const auto [slot, is_new] = alone_.try_emplace({action.stage.value, action.kind});
    if (is_new) slot->second = Made(RunAlone(costs_.parts[action.stage.value], action.kind));
    return slot->second;
  }

  // Null for a pair that was not simulated by its parts.
  const GroupParts* Beside(const OverlappedPair& pair) {
    const bool whole = pair.backward->kind == ActionKind::kBackward;
    if ((whole ? costs_.overlapped_whole : costs_.overlapped_input).empty()) return nullptr;
    const int32_t a = pair.forward->stage.value, b = pair.backward->stage.value;
    const auto [slot, is_new] = beside_.try_emplace({a, b, whole});
    if (is_new) {
      slot->second = Made(RunOverlapped(costs_.parts[a], costs_.parts[b], whole,
                                        FindOverlap(plan_, whole), costs_.slowdown));
    }
    return &slot->second;
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

  // The parts of F go to event `forward`, those of I and W to `backward`; in the order of events.
  void Write(const GroupParts& parts, uint32_t forward, uint32_t backward) {
    const Event& event = timeline_->events[forward];
    const int64_t length_ns = event.end_ns - event.start_ns;
    const auto stretched = [&](int64_t ns) {
      if (length_ns == parts.length_ns) return event.start_ns + ns;
      const double share = static_cast<double>(ns) / static_cast<double>(parts.length_ns);
      return event.start_ns + static_cast<int64_t>(share * static_cast<double>(length_ns) + 0.5);
    };
    for (const uint32_t owner : {std::min(forward, backward), std::max(forward, backward)}) {
      for (const PartTime& part : parts.times) {
        const bool of_forward = RowOfPart(part.part).of == ActionKind::kForward;
        if (part.start_ns == part.end_ns || (of_forward ? forward : backward) != owner) continue;
        timeline_->parts.push_back(
            {owner, part.part, part.layer, stretched(part.start_ns), stretched(part.end_ns)});
      }
      if (forward == backward) break;
    }
  }

  const Plan& plan_;
  const CostModel& costs_;
  Timeline* const timeline_;
  std::map<std::pair<int32_t, ActionKind>, GroupParts> alone_;
  std::map<std::tuple<int32_t, int32_t, bool>, GroupParts> beside_;
};

}  // namespace

void AddParts(const Plan& lowered, const CostModel& costs, Timeline* timeline) {
  if (!costs.parts.empty()) PartWriter(lowered, costs, timeline).Run();
}

}  // namespace stringline
