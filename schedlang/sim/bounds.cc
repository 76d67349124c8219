#include "schedlang/sim/bounds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "schedlang/effects.h"

namespace stringline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

class Bounder {
 public:
  Bounder(const Plan& plan, const CostModel& costs) : plan_(plan), costs_(costs) {
    least_.assign(plan.stages.size(), {kNever, kNever});
    most_forward_.assign(plan.ranks(), 0);
    bound_.ranks.resize(plan.ranks());
    for (int r = 0; r < plan.ranks(); ++r) Measure(r);
  }

  LowerBound Run() {
    for (int r = 0; r < plan_.ranks(); ++r) {
      RankBound& rank = bound_.ranks[r];
      if (rank.work_ns == 0 && rank.idle_ns == 0 && !used_[r]) continue;
      int64_t head_ns = kNever, tail_ns = kNever, trip_ns = kNever;
      for (size_t s = 0; s < plan_.stages.size(); ++s) {
        if (plan_.stages[s].rank.value != r || least_[s][0] == kNever) continue;
        const StageId stage(static_cast<int32_t>(s));
        head_ns = std::min(head_ns, AlongPrevious(stage, true));
        tail_ns = std::min(tail_ns, AlongPrevious(stage, false));
        trip_ns = std::min(trip_ns, TripOf(stage));
      }
      rank.head_ns = head_ns;
      rank.tail_ns = ends_with_weights_[r] ? 0 : tail_ns;
      rank.idle_ns = std::max<int64_t>(0, trip_ns - peak_[r] * most_forward_[r]);
      if (bound_.rank.valid() && rank.sum_ns() <= bound_.makespan_ns) continue;
      bound_.makespan_ns = rank.sum_ns();
      bound_.rank = RankId(r);
    }
    return std::move(bound_);
  }

 private:
  // Work and memory of a rank, and the least that a forward and a backward of its stages take.
  void Measure(int r) {
    const auto actions = plan_.of(RankId(r));
    int64_t live = 0, peak = 0;
    bool weights = false;
    for (size_t i = 0; i < actions.size();) {
      if (!IsCompute(actions[i].kind)) {
        ++i;
        continue;
      }
      const auto group = GroupAt(actions, i);
      const int64_t cost_ns = GroupCost(costs_, group);
      bound_.ranks[r].work_ns += cost_ns;
      int64_t released = 0;
      for (const Action& part : group) {
        const int change = ActivationChange(part.kind);
        (change > 0 ? live : released) += change;
        if (part.kind == ActionKind::kWeightGradient) {
          weights = true;
          continue;
        }
        const bool forward = part.kind == ActionKind::kForward;
        int64_t& least = least_[part.stage.value][forward ? 0 : 1];
        least = std::min(least, cost_ns);
        if (forward) most_forward_[r] = std::max(most_forward_[r], cost_ns);
      }
      peak = std::max(peak, live);
      live += released;
      i += group.size();
    }
    peak_.push_back(peak);
    ends_with_weights_.push_back(weights);
    used_.push_back(!actions.empty());
  }

  int64_t Least(StageId stage, int direction) const {
    const int64_t ns = least_[stage.value][direction];
    return ns == kNever ? 0 : ns;
  }
  bool Crosses(StageId a, StageId b) const { return plan_.stage(a).rank != plan_.stage(b).rank; }
  int64_t HopBetween(ActionKind send, StageId from, StageId to) const {
    if (!Crosses(from, to)) return 0;
    return HopOf(costs_, {.kind = send, .stage = from}).all_ns();
  }

  // The forwards (or backwards) of the stages before this one, and the hops between.
  int64_t AlongPrevious(StageId stage, bool forward) const {
    int64_t ns = 0;
    for (StageId s = plan_.stage(stage).previous, next = stage; s.valid();
         next = s, s = plan_.stage(s).previous) {
      ns += forward ? Least(s, 0) + HopBetween(ActionKind::kSendForward, s, next)
                    : Least(s, 1) + HopBetween(ActionKind::kSendBackward, next, s);
    }
    return ns;
  }

  // From the start of a forward of the stage to the start of its backward.
  int64_t TripOf(StageId stage) const {
    int64_t ns = Least(stage, 0);
    for (StageId s = stage, next = plan_.stage(stage).next; next.valid();
         s = next, next = plan_.stage(next).next) {
      ns += HopBetween(ActionKind::kSendForward, s, next) + Least(next, 0) + Least(next, 1) +
            HopBetween(ActionKind::kSendBackward, next, s);
    }
    return ns;
  }

  const Plan& plan_;
  const CostModel& costs_;
  LowerBound bound_;
  std::vector<std::array<int64_t, 2>> least_;  // by stage: of its forwards, of its backwards
  std::vector<int64_t> most_forward_;          // by rank
  std::vector<int64_t> peak_;                  // by rank: activations
  std::vector<bool> ends_with_weights_;
  std::vector<bool> used_;
};

}  // namespace

LowerBound LowerBoundOf(const Plan& plan, const CostModel& costs) {
  return Bounder(plan, costs).Run();
}

}  // namespace stringline
