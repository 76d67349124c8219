// A group is run part by part on its two lanes. With a jitter it is run kJitterDraws times, every
// step having every factor in one of these draws, and the moments of all draws are averaged.
#include "schedlang/costs/overlapped.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "schedlang/base/sl_check.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

int64_t SumOf(const PartCosts& costs, ActionKind of) {
  int64_t sum = 0;
  for (int part = 0; part < kParts; ++part) {
    const PartRow& row = RowOfPart(part);
    if (row.of == of) sum += costs.ns[part] * (row.once ? 1 : costs.layers);
  }
  return sum;
}

// Without layers, a whole backward is all in its B.post.
PartCosts AsBackward(PartCosts costs, bool whole) {
  if (whole && costs.layers == 0) {
    costs.ns[kBPost] += costs.ns[kWPost];
    costs.ns[kWPost] = 0;
  }
  return costs;
}

// Factors of durations with the mean 1 and this standard deviation, in millionths: the middles of
// kJitterDraws equally probable ranges of a lognormal distribution.
std::array<double, kJitterDraws> FactorsOf(int64_t jitter) {
  const double relative = static_cast<double>(jitter) * 1e-6;
  const double sigma = std::sqrt(std::log1p(relative * relative));
  std::array<double, kJitterDraws> factors;
  double sum = 0;
  for (int k = 0; k < kJitterDraws; ++k) {
    // The value below which a normally distributed one lies with probability (k + 1/2) / draws.
    double low = -8, high = 8;
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      const bool below = std::erfc(-middle / std::sqrt(2.0)) / 2 < (k + 0.5) / kJitterDraws;
      (below ? low : high) = middle;
    }
    factors[k] = std::exp(sigma * low);
    sum += factors[k];
  }
  for (double& factor : factors) factor *= kJitterDraws / sum;
  return factors;
}

constexpr double kSameMomentNs = 1e-3;  // moments closer than that differ by rounding

class OverlappedRun {
 public:
  // `costs` by action of the group.
  OverlappedRun(absl::Span<const PricedMember> group, const std::vector<PartCosts>& costs,
                GroupOrder order, const LaneRules& rules)
      : group_(group), costs_(costs), rules_(rules) {
    lanes_[0].steps = std::move(order.compute);
    lanes_[1].steps = std::move(order.network);
  }

  std::vector<PartTime> Run() {
    std::vector<PartTime> times = rules_.jitter == 0 ? RunOnce() : MeanOfDraws();
    std::stable_sort(times.begin(), times.end(),
                     [](const PartTime& x, const PartTime& y) { return x.end_ns < y.end_ns; });
    return times;
  }

 private:
  struct LaneState {
    std::vector<LaneStep> steps;
    std::vector<double> factors;  // of the steps' durations; empty: 1
    std::vector<PartTime> times;  // of the steps that have ended
    size_t next = 0;              // the steps before `next` have ended
    std::optional<PartTime> running;
    double left_ns = 0;
    double awaits_ns = 0;  // the next step starts with a bucket at that moment; 0: with none
  };

  // The parts of both lanes, lane by lane.
  std::vector<PartTime> RunOnce() {
    now_ns_ = 0;
    std::vector<PartTime> times;
    for (LaneState& lane : lanes_) {
      lane.next = 0;
      lane.times.clear();
    }
    while (Advance()) {
    }
    for (const LaneState& lane : lanes_) {
      SL_CHECK(lane.next == lane.steps.size());
      times.insert(times.end(), lane.times.begin(), lane.times.end());
    }
    return times;
  }

  // The same; every moment is the mean over draws. Each step has every factor in one draw, so only
  // their meetings are random.
  std::vector<PartTime> MeanOfDraws() {
    std::mt19937_64 random(1);
    std::array<std::vector<std::array<double, kJitterDraws>>, 2> drawn;
    for (size_t k = 0; k < 2; ++k) {
      drawn[k].resize(lanes_[k].steps.size(), FactorsOf(rules_.jitter));
      for (std::array<double, kJitterDraws>& factors : drawn[k]) {
        for (size_t left = kJitterDraws; left > 1; --left) {
          std::swap(factors[left - 1], factors[random() % left]);
        }
      }
    }
    std::vector<PartTime> times;
    std::vector<double> starts_ns(lanes_[0].steps.size() + lanes_[1].steps.size(), 0);
    std::vector<double> ends_ns = starts_ns;
    for (int draw = 0; draw < kJitterDraws; ++draw) {
      for (size_t k = 0; k < 2; ++k) {
        lanes_[k].factors.clear();
        for (const auto& factors : drawn[k]) lanes_[k].factors.push_back(factors[draw]);
      }
      times = RunOnce();
      for (size_t k = 0; k < times.size(); ++k) {
        starts_ns[k] += static_cast<double>(times[k].start_ns) / kJitterDraws;
        ends_ns[k] += static_cast<double>(times[k].end_ns) / kJitterDraws;
      }
    }
    for (size_t k = 0; k < times.size(); ++k) {
      times[k].start_ns = std::llround(starts_ns[k]);
      times[k].end_ns = std::llround(ends_ns[k]);
    }
    return times;
  }

  // The moment at which the buckets that the step reads are there.
  int64_t GatheredNs(const LaneStep& step) const {
    const PricedMember& member = group_[step.of];
    const auto buckets = static_cast<int64_t>(member.gathered_ns.size());
    if (buckets == 0) return 0;
    const int64_t needed = BucketsNeeded(member.kind, {step.part, step.layer, step.chunk},
                                         costs_[step.of].layers, buckets);
    return needed == 0 ? 0 : member.gathered_ns[static_cast<size_t>(needed - 1)];
  }

  void Start(LaneState* lane, const LaneState& other) {
    lane->awaits_ns = 0;
    if (lane->running || lane->next == lane->steps.size()) return;
    const LaneStep& step = lane->steps[lane->next];
    if (step.after >= static_cast<int64_t>(other.next)) return;
    const auto there_ns = static_cast<double>(GatheredNs(step));
    if (there_ns > now_ns_ + kSameMomentNs) {
      lane->awaits_ns = there_ns;
      return;
    }
    const auto now = std::llround(now_ns_);
    lane->running = PartTime{step.part, step.layer, step.of, step.chunk, now, now};
    lane->left_ns = static_cast<double>(costs_[step.of].ns[step.part]) / rules_.chunks;
    if (!lane->factors.empty()) lane->left_ns *= lane->factors[lane->next];
  }

  // Starts the parts that are ready, then goes to the next end or bucket. False when nothing runs
  // or waits for a bucket any more.
  bool Advance() {
    Start(&lanes_[0], lanes_[1]);
    Start(&lanes_[1], lanes_[0]);
    // Computation goes slower while the network works.
    const double rate = lanes_[1].running ? 1 + static_cast<double>(rules_.slowdown) * 1e-6 : 1;
    double step_ns = -1;
    for (int k = 0; k < 2; ++k) {
      if (lanes_[k].awaits_ns > 0) {
        const double comes_ns = lanes_[k].awaits_ns - now_ns_;
        if (step_ns < 0 || comes_ns < step_ns) step_ns = comes_ns;
      }
      if (!lanes_[k].running) continue;
      const double needs = lanes_[k].left_ns * (k == 0 ? rate : 1);
      if (step_ns < 0 || needs < step_ns) step_ns = needs;
    }
    if (step_ns < 0) return false;
    now_ns_ += step_ns;
    for (int k = 0; k < 2; ++k) {
      LaneState& lane = lanes_[k];
      if (!lane.running) continue;
      lane.left_ns -= step_ns / (k == 0 ? rate : 1);
      if (lane.left_ns > 1e-6) continue;
      lane.running->end_ns = std::llround(now_ns_);
      lane.times.push_back(*lane.running);
      ++lane.next;
      lane.running.reset();
    }
    return true;
  }

  const absl::Span<const PricedMember> group_;
  const std::vector<PartCosts>& costs_;
  const LaneRules rules_;
  LaneState lanes_[2];  // compute, network
  double now_ns_ = 0;
};

}  // namespace

int64_t PartCosts::Forward() const { return SumOf(*this, ActionKind::kForward); }
int64_t PartCosts::InputGradient() const { return SumOf(*this, ActionKind::kInputGradient); }
int64_t PartCosts::WeightGradient() const { return SumOf(*this, ActionKind::kWeightGradient); }

int64_t PartCosts::OnLane(Lane lane) const {
  int64_t sum = 0;
  for (int part = 0; part < kParts; ++part) {
    if (LaneOf(part) == lane) sum += ns[part] * (RowOfPart(part).once ? 1 : layers);
  }
  return sum;
}

std::vector<PartTime> RunGroup(absl::Span<const PricedMember> group, const Overlap* order,
                               const LaneRules& rules) {
  std::vector<GroupMember> members;
  std::vector<PartCosts> costs;
  for (const PricedMember& member : group) {
    members.push_back({member.kind, static_cast<int>(member.costs->layers), member.stage});
    costs.push_back(AsBackward(*member.costs, member.kind == ActionKind::kBackward));
  }
  const bool in_a_row = group.size() == 1 && rules.chunks == 1;
  return OverlappedRun(group, costs, OrderGroup(members, order, rules.chunks),
                       in_a_row ? LaneRules{} : rules)
      .Run();
}

}  // namespace stringline
