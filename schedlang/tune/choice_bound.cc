#include "schedlang/tune/choice_bound.h"

#include <algorithm>
#include <vector>

#include "schedlang/tune/evaluate.h"

namespace stringline::tune {
namespace {

// The least times of a stage's microbatch, or slice of it.
struct LeastTimes {
  int64_t forward = 0;
  int64_t back = 0;    // until its input gradient is there
  int64_t weight = 0;  // more, until its weight gradient is
};

LeastTimes LeastOf(const CostModel& costs, size_t stage, bool halves, bool pairs) {
  const auto at = [stage](const std::vector<int64_t>& of) { return of.empty() ? 0 : of[stage]; };
  LeastTimes least = {at(costs.forward), at(costs.backward), 0};
  if (halves) {
    least.back = at(costs.input_gradient);
    least.weight = at(costs.weight_gradient);
    if (!costs.backward.empty() && least.back + least.weight > costs.backward[stage]) {
      least.weight = std::max<int64_t>(0, costs.backward[stage] - least.back);
    }
  }
  if (!pairs || costs.parts.empty()) return least;
  // A pair takes at least what is on the compute lane, and what is done again.
  const int64_t all = costs.parts[stage].OnLane(Lane::kCompute) + at(costs.again);
  const int64_t whole = least.forward + least.back + least.weight;
  const int64_t saved = std::max<int64_t>(0, whole - all);
  least.weight = 0;
  least.forward = std::max<int64_t>(0, least.forward - saved);
  least.back = std::max<int64_t>(0, all - least.forward);
  return least;
}

// The bytes that are always there.
int64_t ResidentOf(const StageMemory& memory) {
  return memory[MemoryClass::kWeights] + memory[MemoryClass::kGradients] +
         memory[MemoryClass::kOptimizer] + memory.unreduced;
}

class RankBounds {
 public:
  RankBounds(const StagedCosts& staged, const KnownSchedule& schedule)
      : plan_(staged.stages), costs_(staged.costs) {
    const bool knows_head = plan_.slices == 1 && !schedule.pairs;
    int64_t down = 0, up = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const StageId id(static_cast<int32_t>(s));
      least_.push_back(LeastOf(costs_, s, schedule.halves, schedule.pairs));
      if (const Edge* const edge = plan_.graph.FirstIn(id); edge == nullptr) {
        down = up = 0;
      } else if (knows_head) {
        down += least_[s - 1].forward + HopNs(costs_.activation_hops, *edge);
        up += least_[s - 1].back + HopNs(costs_.gradient_hops, *edge);
      }
      heads_.push_back(down);
      tails_.push_back(up);
    }
  }

  ChoiceBound Of(int32_t rank) const {
    ChoiceBound bound;
    int64_t until_back = 0, weights = 0, head = -1, tail = -1, held = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].rank.value != rank) continue;
      // A time of a slice or an uneven microbatch is rounded.
      const int64_t times = plan_.microbatches_of(StageId(static_cast<int32_t>(s)));
      const int64_t rounded = plan_.slices > 1 ? 2 * times : 0;
      until_back += times * (least_[s].forward + least_[s].back) - rounded;
      weights += times * least_[s].weight;
      head = head < 0 ? heads_[s] : std::min(head, heads_[s]);
      tail = tail < 0 ? tails_[s] : std::min(tail, tails_[s]);
      if (costs_.memory.empty()) continue;
      const StageMemory& memory = costs_.memory[s];
      bound.bytes += ResidentOf(memory);
      if (plan_.slices > 1) continue;
      held = std::max(held,
                      memory[MemoryClass::kSavedForInput] + memory[MemoryClass::kSavedForWeight]);
    }
    bound.step_ns = head + until_back + std::max(weights, tail);
    bound.bytes += held;
    return bound;
  }

 private:
  int64_t HopNs(const std::vector<Hop>& hops, const Edge& edge) const {
    if (plan_.SameRank(edge.from, edge.to)) return 0;
    return hops.empty() ? costs_.hop : hops[static_cast<size_t>(edge.id)].all_ns();
  }

  const Plan& plan_;
  const CostModel& costs_;
  std::vector<LeastTimes> least_;       // by stage
  std::vector<int64_t> heads_, tails_;  // by stage
};

}  // namespace

ChoiceBound BoundOf(const StagedCosts& staged, const KnownSchedule& schedule) {
  const RankBounds bounds(staged, schedule);
  ChoiceBound most;
  for (int rank = 0; rank < staged.stages.ranks(); ++rank) {
    const ChoiceBound bound = bounds.Of(rank);
    most.step_ns = std::max(most.step_ns, bound.step_ns);
    most.bytes = std::max(most.bytes, bound.bytes);
  }
  most.step_ns += BehindNs(staged.stages, staged.costs);
  return most;
}

ChoiceBound BoundOfGroup(const StagedCosts& staged) {
  const Plan& plan = staged.stages;
  int64_t work = 0, bytes = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const LeastTimes least = LeastOf(staged.costs, s, /*halves=*/true, /*pairs=*/true);
    work += least.forward + least.back + least.weight;
    if (!staged.costs.memory.empty()) bytes += ResidentOf(staged.costs.memory[s]);
  }
  // Stages of another number round their times differently, by less than this.
  constexpr double kRounding = 1 - 1e-6;
  const double mean = static_cast<double>(plan.microbatches) * static_cast<double>(work) /
                      static_cast<double>(plan.ranks());
  return {static_cast<int64_t>(mean * kRounding), bytes / plan.ranks()};
}

}  // namespace stringline::tune
