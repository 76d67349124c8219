// Per rank: computation and communication as two sorted lists of stretches, and a single walk over
// both. Everything counted has a small number: a part, a cause, or the kinds of a group.
#include "schedlang/report/network_time.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/parts.h"
#include "schedlang/report/analysis.h"

namespace stringline {
namespace {

// Numbers for idle parties: parts, causes, kinds of groups as a set of bits, the end.
constexpr int kPartner = kParts;
constexpr int kFirstCause = kPartner + 1;
constexpr int kFirstKinds = kFirstCause + kIdleCauses;
constexpr int kSetsOfKinds = 1 << kComputeKinds;
constexpr int kTheEnd = kFirstKinds + kSetsOfKinds;
constexpr int kStills = kTheEnd + 1;

// "F&B"
std::string NameOfKinds(const OwnRows& rows, int kinds) {
  std::string name;
  for (int kind = 0; kind < kComputeKinds; ++kind) {
    if ((kinds >> kind & 1) == 0) continue;
    absl::StrAppend(&name, name.empty() ? "" : "&",
                    PrintedKind(rows, static_cast<ActionKind>(kind)));
  }
  return name;
}

std::string NameOfStill(const OwnRows& rows, int still) {
  if (still == kPartner) return "partner";
  if (still < kPartner) return PartName(still);
  if (still < kFirstKinds) return NameOf(static_cast<IdleCause>(still - kFirstCause));
  if (still == kTheEnd) return "end";
  return absl::StrCat("next ", NameOfKinds(rows, still - kFirstKinds));
}

struct LaneStretch {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t group = 0;  // its first event
  int part = -1;       // -1: a computation without parts
};

class NetworkMeter {
 public:
  NetworkMeter(const Plan& plan, const Timeline& timeline, const Wiring& wiring)
      : plan_(plan), timeline_(timeline), wiring_(wiring), shortest_(plan.stages.size()) {
    for (auto& of_parts : shortest_) of_parts.fill(-1);
    for (const PartEvent& part : timeline.parts) {
      int64_t& shortest_ns = ShortestOf(part);
      const int64_t length_ns = part.end_ns - part.start_ns;
      if (shortest_ns < 0 || length_ns < shortest_ns) shortest_ns = length_ns;
    }
  }

  NetworkTimes Run() {
    NetworkTimes times;
    std::array<int64_t, kStills> sums = {};
    std::array<int64_t, kSetsOfKinds> ready = {};
    for (int r = 0; r < plan_.ranks(); ++r) {
      Collect(RankId(r));
      times.ranks.push_back(MeasureRank());
      const NetworkTime& rank = times.ranks.back();
      times.all.Add(rank);
      times.all.saved_ns += rank.saved_ns;
      times.all.groups += rank.groups;
      times.all.pairs += rank.pairs;
      for (int s = 0; s < kStills; ++s) sums[s] += still_[s];
      for (int k = 0; k < kSetsOfKinds; ++k) ready[k] += ready_[k];
    }
    Fill(sums, ready, &times.all);
    return times;
  }

 private:
  void Fill(const std::array<int64_t, kStills>& sums,
            const std::array<int64_t, kSetsOfKinds>& ready, NetworkTime* time) const {
    for (int s = 0; s < kStills; ++s) {
      if (sums[s] > 0) time->still.emplace_back(NameOfStill(plan_.rows, s), sums[s]);
    }
    for (int k = 0; k < kSetsOfKinds; ++k) {
      if (ready[k] > 0) time->ready.emplace_back(NameOfKinds(plan_.rows, k), ready[k]);
    }
  }

  int64_t& ShortestOf(const PartEvent& part) {
    return shortest_[timeline_.events[part.event].stage.value][part.part];
  }

  // The moment from which the all-to-all waits for no partner.
  int64_t TransferStartOf(const PartEvent& part) {
    constexpr int64_t kRoundingNs = 2;
    const int64_t start_ns = part.end_ns - ShortestOf(part);
    return start_ns - part.start_ns <= kRoundingNs ? part.start_ns : start_ns;
  }

  // Computes the times of the stretches found by Collect.
  NetworkTime MeasureRank() {
    still_.fill(0);
    ready_.fill(0);
    const LaneTime all = Walk(network_, /*blames=*/false);
    const LaneTime transfer = Walk(transfers_, /*blames=*/true);
    NetworkTime time = of_groups_;
    time.network_ns = all.length_ns;
    time.waiting_ns = all.length_ns - transfer.length_ns;
    time.hidden_ns = transfer.length_ns - transfer.exposed_ns;
    time.exposed_ns = all.exposed_ns;
    still_[kPartner] = all.exposed_ns - transfer.exposed_ns;
    Fill(still_, ready_, &time);
    return time;
  }

  // Adds a group's saving; its parts are those from `first` up to part_.
  void AddGroup(uint32_t group, size_t count, size_t first) {
    if ((count == 1 && plan_.chunks == 1) || part_ == first) return;
    ++of_groups_.groups;
    if (count == 2) ++of_groups_.pairs;
    for (size_t p = first; p < part_; ++p) of_groups_.saved_ns += ShortestOf(timeline_.parts[p]);
    const Event& event = timeline_.events[group];
    of_groups_.saved_ns -= event.end_ns - event.start_ns;
  }

  // The rank's stretches on the two lanes, by start.
  void Collect(RankId rank) {
    compute_.clear();
    network_.clear();
    transfers_.clear();
    of_groups_ = {};
    const std::vector<PartEvent>& parts = timeline_.parts;
    for (uint32_t i = plan_.first[rank.value]; i < plan_.first[rank.value + 1];) {
      const uint32_t group = i;
      const size_t count = GroupAt(absl::MakeConstSpan(plan_.actions), group).size();
      i += static_cast<uint32_t>(count);
      const size_t first = part_;
      for (; part_ < parts.size() && parts[part_].event < i; ++part_) {
        const PartEvent& part = parts[part_];
        const bool network = LaneOf(part.part) == Lane::kNetwork;
        (network ? network_ : compute_).push_back({part.start_ns, part.end_ns, group, part.part});
        if (!network) continue;
        transfers_.push_back({TransferStartOf(part), part.end_ns, group, part.part});
      }
      AddGroup(group, count, first);
      const Event& event = timeline_.events[group];
      if (part_ == first && IsCompute(event.kind)) {
        compute_.push_back({event.start_ns, event.end_ns, group});
      }
    }
    for (auto* const lane : {&compute_, &network_, &transfers_}) {
      std::stable_sort(lane->begin(), lane->end(), [](const auto& a, const auto& b) {
        return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
      });
    }
  }

  // The time in which at least one stretch of the lane lasts, and the share of it under no
  // computation.
  struct LaneTime {
    int64_t length_ns = 0;
    int64_t exposed_ns = 0;
  };

  LaneTime Walk(const std::vector<LaneStretch>& lane, bool blames) {
    LaneTime time;
    size_t next = 0;      // index of the first computing stretch with a later start
    int64_t busy_ns = 0;  // end of the computing stretches before `next`
    int64_t done_ns = 0;  // until when the network is accounted for
    for (const LaneStretch& stretch : lane) {
      int64_t now_ns = std::max(stretch.start_ns, done_ns);
      done_ns = std::max(done_ns, stretch.end_ns);
      if (now_ns >= stretch.end_ns) continue;
      time.length_ns += stretch.end_ns - now_ns;
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
        if (blames) Blame(stretch.group, next, now_ns, until_ns);
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
      AddReady(group, NextGroup(group), start_ns, end_ns);
      return;
    }
    const GroupNeeds needs = NeedsOf(waiting.group);
    const int64_t there_ns =
        needs.last == kNoAction ? start_ns : std::clamp(EndOf(needs.last), start_ns, end_ns);
    if (there_ns > start_ns) still_[kFirstCause + CauseOf(needs.last)] += there_ns - start_ns;
    still_[kFirstKinds + needs.kinds] += end_ns - there_ns;
    AddReady(group, waiting.group, start_ns, end_ns);
  }

  struct GroupNeeds {
    int kinds = 0;              // a set of bits
    uint32_t last = kNoAction;  // its last need from elsewhere
  };

  GroupNeeds NeedsOf(uint32_t group) const {
    GroupNeeds needs;
    const auto actions = GroupAt(absl::MakeConstSpan(plan_.actions), group);
    for (uint32_t k = 0; k < actions.size(); ++k) {
      needs.kinds |= 1 << static_cast<int>(actions[k].kind);
      if (!wiring_.whole) continue;
      const Wire& wire = wiring_.wires[group + k];
      const CopyWire copy = wiring_.CopyOf(group + k);
      const auto take = [&](uint32_t need) {
        if (need == kNoAction) return;
        if (needs.last == kNoAction || EndOf(need) > EndOf(needs.last)) needs.last = need;
      };
      for (const uint32_t need :
           {wire.input, wire.gradient, wire.gathered, copy.source, copy.freed}) {
        take(need);
      }
      wiring_.ForFurtherWaits(group + k, take);
    }
    return needs;
  }

  // The rank's next computation behind the group; kNoAction behind the last one.
  uint32_t NextGroup(uint32_t group) const {
    const auto rank = std::upper_bound(plan_.first.begin(), plan_.first.end(), group);
    for (uint32_t i = group + 1; i < *rank; ++i) {
      if (IsCompute(plan_.actions[i].kind) && !plan_.actions[i].joined) return i;
    }
    return kNoAction;
  }

  // True if an action of `group` is one of those that precede an action of `next` in its stage or
  // its pipe: for its microbatch, and on this rank.
  bool Gives(uint32_t group, uint32_t next) const {
    for (const Action& later : GroupAt(absl::MakeConstSpan(plan_.actions), next)) {
      const StageGraph& graph = plan_.GraphOf(later.microbatch);
      const bool forward = later.kind == ActionKind::kForward;
      for (const Action& earlier : GroupAt(absl::MakeConstSpan(plan_.actions), group)) {
        if (earlier.microbatch != later.microbatch) continue;
        const Edge* const edge = forward ? graph.Find(earlier.stage, later.stage)
                                         : graph.Find(later.stage, earlier.stage);
        if (earlier.stage == later.stage || edge != nullptr) return true;
      }
    }
    return false;
  }

  // Counts the time in which `next` could have computed beside the group's network.
  void AddReady(uint32_t group, uint32_t next, int64_t start_ns, int64_t end_ns) {
    if (next == kNoAction || !wiring_.whole || Gives(group, next)) return;
    const GroupNeeds needs = NeedsOf(next);
    const int64_t there_ns =
        needs.last == kNoAction ? start_ns : std::clamp(EndOf(needs.last), start_ns, end_ns);
    ready_[needs.kinds] += end_ns - there_ns;
  }

  int64_t EndOf(uint32_t event) const { return timeline_.events[event].end_ns; }
  int CauseOf(uint32_t need) const {
    const ActionKind kind = plan_.actions[need].kind;
    const bool meets = IsCollective(kind) || IsOwnNetwork(kind) || IsCompute(kind);
    return static_cast<int>(meets                              ? IdleCause::kCollective
                            : IsCopy(kind)                     ? IdleCause::kCopy
                            : kind == ActionKind::kRecvForward ? IdleCause::kActivation
                                                               : IdleCause::kGradient);
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const Wiring& wiring_;
  size_t part_ = 0;  // index in timeline_.parts: the first part not collected
  std::vector<LaneStretch> compute_, network_;
  std::vector<LaneStretch> transfers_;                 // network_ without waits for a partner
  NetworkTime of_groups_;                              // groups, and their savings
  std::vector<std::array<int64_t, kParts>> shortest_;  // by stage, then part; -1: no such part
  std::array<int64_t, kStills> still_ = {};
  std::array<int64_t, kSetsOfKinds> ready_ = {};
};

}  // namespace

NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline, const Wiring& wiring) {
  return NetworkMeter(lowered, timeline, wiring).Run();
}

NetworkTimes MeasureNetwork(const Plan& lowered, const Timeline& timeline) {
  return MeasureNetwork(lowered, timeline, WiringOf(lowered, timeline.layout));
}

void NetworkSums::Add(const NetworkSums& other) {
  network_ns += other.network_ns;
  waiting_ns += other.waiting_ns;
  hidden_ns += other.hidden_ns;
  exposed_ns += other.exposed_ns;
}

NetworkSums NetworkSums::PerStep(size_t steps) const {
  if (steps == 0) return {};
  const auto of = static_cast<int64_t>(steps);
  return {network_ns / of, waiting_ns / of, hidden_ns / of, exposed_ns / of};
}

double NetworkSums::hidden_share() const {
  if (transfer_ns() == 0) return 0;
  return static_cast<double>(hidden_ns) / static_cast<double>(transfer_ns());
}

}  // namespace stringline
