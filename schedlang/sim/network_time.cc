// Per rank: what computes and what communicates as two sorted lists of stretches, and one walk over
// both. What is counted has a small number: a part, a cause, or the kinds of a group.
#include "schedlang/sim/network_time.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/parts/parts.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/wiring.h"

namespace stringline {
namespace {

// Numbers of what stands still: parts, causes, kinds of groups as a set of bits, the end.
constexpr int kFirstCause = kParts;
constexpr int kFirstKinds = kFirstCause + kIdleCauses;
constexpr int kTheEnd = kFirstKinds + 16;
constexpr int kStills = kTheEnd + 1;

std::string NameOfStill(int still) {
  if (still < kFirstCause) return PartName(still);
  if (still < kFirstKinds) return NameOf(static_cast<IdleCause>(still - kFirstCause));
  if (still == kTheEnd) return "end";
  std::string name;
  for (int kind = 0; kind < 4; ++kind) {
    if (((still - kFirstKinds) >> kind & 1) == 0) continue;
    absl::StrAppend(&name, name.empty() ? "next " : "&",
                    PrintedKind(static_cast<ActionKind>(kind)));
  }
  return name;
}

struct LaneStretch {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t group = 0;  // its first event
  int part = -1;       // -1: a computation without parts
};

class NetworkMeter {
 public:
  NetworkMeter(const Plan& plan, const Timeline& timeline)
      : plan_(plan), timeline_(timeline), wiring_(WiringOf(plan, timeline.layout)) {}

  NetworkTimes Run() {
    NetworkTimes times;
    std::array<int64_t, kStills> sums = {};
    for (int r = 0; r < plan_.ranks(); ++r) {
      Collect(RankId(r));
      still_.fill(0);
      times.ranks.push_back(Walk());
      NetworkTime& rank = times.ranks.back();
      Fill(still_, &rank);
      times.all.network_ns += rank.network_ns;
      times.all.exposed_ns += rank.exposed_ns;
      for (int s = 0; s < kStills; ++s) sums[s] += still_[s];
    }
    Fill(sums, &times.all);
    return times;
  }

 private:
  static void Fill(const std::array<int64_t, kStills>& sums, NetworkTime* time) {
    for (int s = 0; s < kStills; ++s) {
      if (sums[s] > 0) time->still.emplace_back(NameOfStill(s), sums[s]);
    }
  }

  // The rank's stretches on the two lanes, by start.
  void Collect(RankId rank) {
    compute_.clear();
    network_.clear();
    const std::vector<PartEvent>& parts = timeline_.parts;
    for (uint32_t i = plan_.first[rank.value]; i < plan_.first[rank.value + 1];) {
      const uint32_t group = i;
      i += static_cast<uint32_t>(GroupAt(absl::MakeConstSpan(plan_.actions), group).size());
      const size_t first = part_;
      for (; part_ < parts.size() && parts[part_].event < i; ++part_) {
        const PartEvent& part = parts[part_];
        (LaneOf(part.part) == Lane::kNetwork ? network_ : compute_)
            .push_back({part.start_ns, part.end_ns, group, part.part});
      }
      const Event& event = timeline_.events[group];
      if (part_ == first && IsCompute(event.kind)) {
        compute_.push_back({event.start_ns, event.end_ns, group});
      }
    }
    for (auto* const lane : {&compute_, &network_}) {
      std::stable_sort(lane->begin(), lane->end(), [](const auto& a, const auto& b) {
        return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
      });
    }
  }

  NetworkTime Walk() {
    NetworkTime time;
    size_t next = 0;      // of the stretches that compute: the first that starts later
    int64_t busy_ns = 0;  // until when those before it compute
    int64_t done_ns = 0;  // until when the network is accounted for
    for (const LaneStretch& stretch : network_) {
      int64_t now_ns = std::max(stretch.start_ns, done_ns);
      done_ns = std::max(done_ns, stretch.end_ns);
      if (now_ns >= stretch.end_ns) continue;
      time.network_ns += stretch.end_ns - now_ns;
      while (now_ns < stretch.end_ns) {
        for (; next < compute_.size() && compute_[next].start_ns <= now_ns; ++next) {
          busy_ns = std::max(busy_ns, compute_[next].end_ns);
        }
        if (busy_ns > now_ns) {
          now_ns = std::min(busy_ns, stretch.end_ns);
          continue;
        }
        const int64_t until_ns = next == compute_.size()
                                     ? stretch.end_ns
                                     : std::min(stretch.end_ns, compute_[next].start_ns);
        time.exposed_ns += until_ns - now_ns;
        Blame(stretch.group, next, now_ns, until_ns);
        now_ns = until_ns;
      }
    }
    return time;
  }

  // Counts a stretch of the network under which nothing computes before compute_[next] starts.
  void Blame(uint32_t group, size_t next, int64_t start_ns, int64_t end_ns) {
    if (next == compute_.size()) {
      still_[kTheEnd] += end_ns - start_ns;
      return;
    }
    const LaneStretch& waiting = compute_[next];
    if (waiting.group == group && waiting.part >= 0) {
      still_[waiting.part] += end_ns - start_ns;
      return;
    }
    int kinds = 0;
    uint32_t last = kNoAction;  // of what the group needs from elsewhere
    const auto actions = GroupAt(absl::MakeConstSpan(plan_.actions), waiting.group);
    for (uint32_t k = 0; k < actions.size(); ++k) {
      kinds |= 1 << static_cast<int>(actions[k].kind);
      if (!wiring_.whole) continue;
      const Wire& wire = wiring_.wires[waiting.group + k];
      for (const uint32_t need : {wire.input, wire.gradient, wire.gathered}) {
        if (need == kNoAction) continue;
        if (last == kNoAction || EndOf(need) > EndOf(last)) last = need;
      }
    }
    const int64_t there_ns =
        last == kNoAction ? start_ns : std::clamp(EndOf(last), start_ns, end_ns);
    if (there_ns > start_ns) still_[kFirstCause + CauseOf(last)] += there_ns - start_ns;
    still_[kFirstKinds + kinds] += end_ns - there_ns;
  }

  int64_t EndOf(uint32_t event) const { return timeline_.events[event].end_ns; }
  int CauseOf(uint32_t need) const {
    const ActionKind kind = plan_.actions[need].kind;
    return static_cast<int>(IsCollective(kind)                 ? IdleCause::kCollective
                            : kind == ActionKind::kRecvForward ? IdleCause::kActivation
                                                               : IdleCause::kGradient);
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const Wiring wiring_;
  size_t part_ = 0;  // of timeline_.parts: the first that was not collected
  std::vector<LaneStretch> compute_, network_;
  std::array<int64_t, kStills> still_ = {};
};

}  // namespace

NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline) {
  return NetworkMeter(lowered, timeline).Run();
}

}  // namespace stringline
