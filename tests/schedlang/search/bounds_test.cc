// The bound of a plan: its parts by formulas for a line and a V with different costs of all stages
// and messages, and against the best of all orders with the plan's own memory.
#include "schedlang/report/bounds.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/search/problem_of.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline {
namespace {

Plan LibraryPlan(const std::string& name, int p, int m) {
  return *PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", name, p, m);
}

CostModel DrawCosts(size_t stages, int64_t longest_hop, std::mt19937_64& random) {
  CostModel costs;
  const auto draw = [&](int64_t most) {
    return static_cast<int64_t>(1 + Below(random, static_cast<size_t>(most)));
  };
  for (size_t s = 0; s < stages; ++s) {
    costs.forward.push_back(draw(20));
    costs.input_gradient.push_back(draw(20));
    costs.weight_gradient.push_back(draw(20));
    costs.backward.push_back(costs.input_gradient[s] + costs.weight_gradient[s]);
    costs.activation_hops.push_back({draw(longest_hop), draw(longest_hop)});
    costs.gradient_hops.push_back({draw(longest_hop), draw(longest_hop)});
  }
  return costs;
}

// Pipes over ranks 0 to P-1 and, for a V, back again; with B, or with I and W.
struct Shape {
  int ranks = 0;
  bool is_v = false;
  bool is_split = false;

  int stages() const { return is_v ? 2 * ranks : ranks; }
  int RankOf(int stage) const { return stage < ranks ? stage : 2 * ranks - 1 - stage; }
};

// The time of a microbatch from stage `from` on to stage `to`, with messages and without the last
// stage's own forward; and back from `to` to `from` likewise.
int64_t Onward(const Shape& shape, const CostModel& costs, int from, int to) {
  int64_t ns = 0;
  for (int s = from; s < to; ++s) {
    ns += costs.forward[s];
    if (shape.RankOf(s) != shape.RankOf(s + 1)) ns += costs.activation_hops[s].all_ns();
  }
  return ns;
}
int64_t Backward(const Shape& shape, const CostModel& costs, int from, int to) {
  int64_t ns = 0;
  for (int s = to; s > from; --s) {
    ns += shape.is_split ? costs.input_gradient[s] : costs.backward[s];
    if (shape.RankOf(s) != shape.RankOf(s - 1)) ns += costs.gradient_hops[s - 1].all_ns();
  }
  return ns;
}

RankBound BoundByFormula(const Shape& shape, const CostModel& costs, const Plan& plan, int rank) {
  RankBound bound;
  const int last = shape.stages() - 1;
  int64_t trip = INT64_MAX, longest = 0;
  for (int s = 0; s <= last; ++s) {
    if (shape.RankOf(s) != rank) continue;
    bound.work_ns += plan.microbatches * (costs.forward[s] + costs.backward[s]);
    const int64_t there = Onward(shape, costs, s, last) + costs.forward[last];
    trip = std::min(trip, there + Backward(shape, costs, s, last));
    longest = std::max(longest, costs.forward[s]);
  }
  // The rank's first stage is the nearest.
  bound.head_ns = Onward(shape, costs, 0, rank);
  // A rank that defers may end with a W, which has no consumer. Otherwise the gradient of its first
  // stage goes back.
  if (!shape.is_split) {
    int64_t tail = 0;
    for (int s = rank - 1; s >= 0; --s) {
      tail += costs.backward[s] + costs.gradient_hops[s].all_ns();
    }
    bound.tail_ns = tail;
  }
  const int64_t peak = PeakActivationsOf(plan, RankId(rank)).count;
  bound.idle_ns = std::max<int64_t>(0, trip - peak * longest);
  return bound;
}

TEST(BoundsTest, PartsAreThoseOfFormulas) {
  struct Case {
    const char* schedule;
    bool is_v, is_split;
  };
  constexpr Case kSchedules[] = {{"gpipe", false, false}, {"1f1b", false, false},
                                 {"zb_h1", false, true},  {"zb_h2", false, true},
                                 {"zb_v", true, true},    {"v_min", true, true}};
  int idle = 0, full = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    for (const Case& c : kSchedules) {
      const int p = 2 + static_cast<int>(Below(random, 3));
      const Plan plan = LibraryPlan(c.schedule, p, 2 * p + static_cast<int>(Below(random, 4)));
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", c.schedule, " P=", p));
      const Shape shape = {p, c.is_v, c.is_split};
      ASSERT_EQ(static_cast<int>(plan.stages.size()), shape.stages());
      const CostModel costs = DrawCosts(plan.stages.size(), Below(random, 2) ? 2 : 60, random);
      const LowerBound bound = LowerBoundOf(plan, costs);
      int64_t most = 0;
      for (int r = 0; r < p; ++r) {
        const RankBound slow = BoundByFormula(shape, costs, plan, r);
        const RankBound& rank = bound.ranks[r];
        ASSERT_EQ(rank.head_ns, slow.head_ns) << "rank " << r;
        ASSERT_EQ(rank.work_ns, slow.work_ns) << "rank " << r;
        ASSERT_EQ(rank.idle_ns, slow.idle_ns) << "rank " << r;
        ASSERT_EQ(rank.tail_ns, slow.tail_ns) << "rank " << r;
        most = std::max(most, slow.sum_ns());
        (slow.idle_ns > 0 ? idle : full) += 1;
      }
      ASSERT_EQ(bound.makespan_ns, most);
      ASSERT_EQ(bound.ranks[bound.rank.value].sum_ns(), most);
    }
  }
  EXPECT_GT(idle, 100);
  EXPECT_GT(full, 100);
}

// Two stages of rank 0, then two of rank 1: nothing moves between stages of one rank.
TEST(BoundsTest, StagesOfOneRankSendNothing) {
  const Plan plan = PlanFromText(
      "plan x P=2 M=1\nstages 0 0 1 1\nrank 0: 0F0 1F0 1B0 0B0\nrank 1: 2F0 3F0 3B0 2B0\n");
  CostModel costs;
  costs.forward = {1, 2, 3, 4};
  costs.backward = {10, 20, 30, 40};
  costs.hop = 100;
  const LowerBound bound = LowerBoundOf(plan, costs);
  EXPECT_EQ(bound.ranks[1].head_ns, 1 + 2 + 100);
  EXPECT_EQ(bound.ranks[1].work_ns, 3 + 4 + 30 + 40);
  EXPECT_EQ(bound.ranks[1].idle_ns, 0);
  EXPECT_EQ(bound.ranks[1].tail_ns, 100 + 20 + 10);
  EXPECT_EQ(bound.ranks[0].head_ns, 0);
  // From stage 1 there and back, of which two forwards fill 2 each.
  EXPECT_EQ(bound.ranks[0].idle_ns, 2 + 100 + 7 + 70 + 100 - 2 * 2);
  EXPECT_EQ(bound.makespan_ns, 103 + 77 + 130);
  EXPECT_EQ(bound.rank, RankId(1));
}

// No order with the plan's own memory is below the bound.
TEST(BoundsTest, NoOrderWithThePlansMemoryIsBelow) {
  int judged = 0, met = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const int p = 1 + static_cast<int>(Below(random, 3));
    const int m = 1 + static_cast<int>(Below(random, 3));
    constexpr const char* kSchedules[] = {"gpipe", "1f1b", "zb_h1", "zb_v"};
    const auto found =
        PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", kSchedules[Below(random, 4)], p, m);
    if (!found) continue;
    const CostModel costs = DrawCosts(found->stages.size(), Below(random, 2) ? 2 : 40, random);
    bool splits = false;
    for (const Action& action : found->actions) {
      splits = splits || action.kind == ActionKind::kWeightGradient;
    }
    auto problem = search::ProblemOf(*found, costs, {.whole = !splits, .split = splits});
    ASSERT_TRUE(problem.ok()) << problem.status();
    for (int r = 0; r < found->ranks(); ++r) {
      problem->capacity[r] = PeakActivationsOf(*found, RankId(r)).count;
    }
    const std::optional<int64_t> best = search::BestOfAll(*problem, 2000);
    if (!best) continue;
    const LowerBound bound = LowerBoundOf(*found, costs);
    ASSERT_LE(bound.makespan_ns, *best);
    ++judged;
    met += bound.makespan_ns == *best;
  }
  EXPECT_GT(judged, 300);
  EXPECT_GT(met, judged / 4) << met << " of " << judged;
}

}  // namespace
}  // namespace stringline
