#include "schedlang/report/bounds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "schedlang/costs/microbatch_shares.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

class Bounder {
 public:
  Bounder(const Plan& plan, const CostModel& costs)
      : plan_(plan), costs_(costs), fewest_tokens_(FewestTokens(costs.shares)) {
    least_.assign(plan.stages.size(), {kNever, kNever});
    most_forward_.assign(plan.ranks(), 0);
    most_again_ = most_forward_;
    bound_.forward_only = plan.forward_only;
    bound_.ranks.resize(plan.ranks());
    for (int r = 0; r < plan.ranks(); ++r) Measure(r);
    MeasureWays();
  }

  LowerBound Run() {
    std::vector<Way> least(plan_.ranks());  // by rank: of its stages
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (least_[s][0] == kNever) continue;
      Way& of = least[plan_.stages[s].rank.value];
      of.head_ns = std::min(of.head_ns, ways_[s].head_ns);
      of.tail_ns = std::min(of.tail_ns, ways_[s].tail_ns);
      of.trip_ns = std::min(of.trip_ns, ways_[s].trip_ns);
    }
    for (int r = 0; r < plan_.ranks(); ++r) {
      RankBound& rank = bound_.ranks[r];
      if (rank.work_ns == 0 && rank.idle_ns == 0 && !used_[r]) continue;
      rank.head_ns = least[r].head_ns;
      rank.tail_ns = ends_with_weights_[r] ? 0 : least[r].tail_ns;
      const int64_t warm_up_ns = peak_[r] * (most_forward_[r] + most_again_[r]);
      if (!plan_.forward_only) rank.idle_ns = std::max<int64_t>(0, least[r].trip_ns - warm_up_ns);
      if (bound_.rank.valid() && rank.sum_ns() <= bound_.makespan_ns) continue;
      bound_.makespan_ns = rank.sum_ns();
      bound_.rank = RankId(r);
    }
    return std::move(bound_);
  }

 private:
  // Work and memory of a rank, and the least times of a forward and a backward of its stages.
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
        const int change = ActivationChange(plan_, part.kind);
        (change > 0 ? live : released) += change;
        if (part.kind == ActionKind::kWeightGradient) {
          weights = true;
          continue;
        }
        if (part.kind == ActionKind::kUpdate) {
          weights = true;  // it may come behind the last backward of the rank, as a W may
          continue;
        }
        if (part.kind == ActionKind::kRecompute) {
          most_again_[r] = std::max(most_again_[r], cost_ns);
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

  // The way to a stage; for a rank, the least of its stages.
  struct Way {
    int64_t head_ns = kNever;  // the forwards of the stages before, and the hops between
    // Their backwards, likewise; without backwards the forwards of the stages behind.
    int64_t tail_ns = kNever;
    int64_t trip_ns = kNever;  // from the start of its forward to the start of its backward
  };

  int64_t Least(StageId stage, int direction) const {
    const int64_t ns = least_[stage.value][direction];
    return ns == kNever ? 0 : ns;
  }
  bool Crosses(StageId a, StageId b) const { return plan_.stage(a).rank != plan_.stage(b).rank; }
  int64_t HopBetween(ActionKind send, StageId from, StageId to) const {
    if (!Crosses(from, to)) return 0;
    const bool forward = send == ActionKind::kSendForward;
    const Edge& edge = *plan_.graph.Find(forward ? from : to, forward ? to : from);
    const Hop hop = HopOf(costs_, edge, {.kind = send});
    const double transfer_ns = static_cast<double>(hop.transfer_ns) * fewest_tokens_;
    return hop.latency_ns + static_cast<int64_t>(transfer_ns);
  }

  // The longest ways: from a stage to those before, and from the last stages to the first.
  void MeasureWays() {
    ways_.assign(plan_.stages.size(), {0, 0, 0});
    if (!plan_.ways.empty()) return;  // some microbatches have shorter ways
    const std::vector<StageId> order = plan_.graph.InOrder();
    for (const StageId stage : order) {
      Way& way = ways_[stage.value];
      for (const Edge& edge : plan_.graph.In(stage)) {
        const Way& before = ways_[edge.from.value];
        way.head_ns =
            std::max(way.head_ns, before.head_ns + Least(edge.from, 0) +
                                      HopBetween(ActionKind::kSendForward, edge.from, stage));
        way.tail_ns =
            std::max(way.tail_ns, before.tail_ns + Least(edge.from, 1) +
                                      HopBetween(ActionKind::kSendBackward, stage, edge.from));
      }
    }
    for (size_t k = order.size(); k-- > 0;) {
      const StageId stage = order[k];
      Way& way = ways_[stage.value];
      int64_t behind_ns = 0;  // without backwards the stages behind are all that follows
      for (const Edge& edge : plan_.graph.Out(stage)) {
        const Way& next = ways_[edge.to.value];
        const int64_t hop_ns = HopBetween(ActionKind::kSendForward, stage, edge.to);
        const int64_t back_ns = HopBetween(ActionKind::kSendBackward, edge.to, stage);
        behind_ns = std::max(behind_ns, plan_.forward_only
                                            ? hop_ns + Least(edge.to, 0) + next.tail_ns
                                            : hop_ns + next.trip_ns + Least(edge.to, 1) + back_ns);
      }
      if (plan_.forward_only) way.tail_ns = behind_ns;
      way.trip_ns = plan_.forward_only ? 0 : Least(stage, 0) + behind_ns;
    }
  }

  const Plan& plan_;
  const CostModel& costs_;
  const double fewest_tokens_;  // of a microbatch
  LowerBound bound_;
  std::vector<std::array<int64_t, 2>> least_;  // by stage: of its forwards, of its backwards
  std::vector<Way> ways_;                      // by stage
  std::vector<int64_t> most_forward_;          // by rank
  std::vector<int64_t> most_again_;            // by rank: of an R
  std::vector<int64_t> peak_;                  // by rank: activations
  std::vector<bool> ends_with_weights_;
  std::vector<bool> used_;
};

}  // namespace

LowerBound LowerBoundOf(const Plan& plan, const CostModel& costs) {
  return Bounder(plan, costs).Run();
}

}  // namespace stringline
