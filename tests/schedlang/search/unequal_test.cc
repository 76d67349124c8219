// Orders of unequal microbatches: times beside the simulator's, and bounds beside all orders of all
// microbatches, also those in which a later one overtakes an earlier one.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/search/exact.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/search.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

std::string RandomShares(int microbatches, std::mt19937_64& random) {
  std::vector<std::string> shares;
  for (int m = 0; m < microbatches; ++m) shares.push_back(absl::StrCat(50 + random() % 151, "%"));
  return absl::StrCat("microbatch=[", absl::StrJoin(shares, ","), "]");
}

// Orders with B and with I and W, whose W takes the oldest I.
TEST(UnequalOrders, TimesAreTheSimulators) {
  struct Case {
    const char* schedule;
    int p, m;
  };
  constexpr Case kCases[] = {
      {"gpipe", 3, 5}, {"zb_v", 3, 6}, {"interleaved", 2, 4}, {"chimera", 2, 4}};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const Case& of = kCases[seed % std::size(kCases)];
    const Plan stages =
        *PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", of.schedule, of.p, of.m);
    const char* const links =
        seed % 2 == 0 ? "p2p=130us" : "p2p=20us,message=64MiB,bandwidth=40GB/s";
    const auto spec =
        ParseCosts(absl::StrCat("F=1ms,B=1500us,I=900us,W=700us,attention=30%,", links, ",",
                                RandomShares(stages.microbatches, random)));
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto costs = ResolveCosts(*spec, stages);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const auto problem = ProblemOf(stages, *costs, {.whole = true, .split = true});
    ASSERT_TRUE(problem.ok()) << problem.status();
    const Words words = RandomWords(*problem, random);
    ASSERT_TRUE(IsComplete(*problem, words)) << "seed " << seed;
    const auto timeline = Simulate(Lower(PlanOf(stages, words)), *costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const Times times = TimesOf(*problem, words);
    EXPECT_EQ(times.makespan, MakespanOf(*timeline)) << "seed " << seed;
  }
}

// An action of a rank's order: a letter, and the microbatch that it is for.
struct Done {
  ActionKind kind;
  int microbatch;
};
using Order = std::vector<Done>;

// All orders of a rank with one stage: the F of a microbatch before its B, or its I before its W.
void AddOrders(int microbatches, bool split, std::vector<int>* next, Order* order,
               std::vector<Order>* all) {
  const std::vector<ActionKind> kinds =
      split ? std::vector{ActionKind::kForward, ActionKind::kInputGradient,
                          ActionKind::kWeightGradient}
            : std::vector{ActionKind::kForward, ActionKind::kBackward};
  bool is_all = true;
  for (int m = 0; m < microbatches; ++m) {
    auto& at = (*next)[static_cast<size_t>(m)];
    if (at == static_cast<int>(kinds.size())) continue;
    is_all = false;
    order->push_back({kinds[static_cast<size_t>(at++)], m});
    AddOrders(microbatches, split, next, order, all);
    order->pop_back();
    --(*next)[static_cast<size_t>(m)];
  }
  if (is_all) all->push_back(*order);
}

// The makespan of two ranks with a stage each, whose messages take their latency; kNoLimit where
// the ranks wait for each other.
int64_t MakespanOfTwo(const Problem& problem, const Order& first, const Order& second) {
  const Order* const orders[] = {&first, &second};
  const auto count = static_cast<size_t>(problem.stages[0].microbatches);
  std::vector<int64_t> forward(count, kNotThere), gradient(count, kNotThere);
  size_t place[] = {0, 0};
  int64_t now[] = {0, 0};
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < 2; ++r) {
      while (place[r] < orders[r]->size()) {
        const auto [kind, microbatch] = (*orders[r])[place[r]];
        const auto m = static_cast<size_t>(microbatch);
        const bool is_forward = kind == ActionKind::kForward;
        const bool is_weight = kind == ActionKind::kWeightGradient;
        int64_t ready = 0;
        if (r == 1 && is_forward) ready = forward[m];
        if (r == 0 && !is_forward && !is_weight) ready = gradient[m];
        if (ready == kNotThere) break;
        now[r] = std::max(now[r], ready) + problem.stages[static_cast<size_t>(r)].TimeOf(kind, m);
        if (r == 0 && is_forward) forward[m] = now[r] + problem.stages[0].activation.latency;
        if (r == 1 && !is_forward && !is_weight) {
          gradient[m] = now[r] + problem.stages[1].gradient.latency;
        }
        ++place[r];
        moved = true;
      }
    }
  }
  const bool ends = place[0] == first.size() && place[1] == second.size();
  return ends ? std::max(now[0], now[1]) : kNoLimit;
}

TEST(UnequalOrders, NoOrderOfAnyMicrobatchesIsBelowTheBound) {
  int met = 0, overtakes = 0;
  constexpr int kCases = 60;
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    std::mt19937_64 random(seed);
    const bool split = seed % 2 == 0;
    const int microbatches = split ? 2 : 3;
    StageWork costs =
        Costs(1 + random() % 3, 1 + random() % 5, 1 + random() % 3, random() % 3, random() % 4);
    Problem problem = OnRanks({0, 1}, microbatches, costs);
    problem.whole = !split;
    problem.split = split;
    problem = WithUnequalMicrobatches(std::move(problem), random);
    for (StageWork& stage : problem.stages) {
      std::vector<MicrobatchWork> each = stage.each;
      for (MicrobatchWork& one : each) one.activation.transfer = one.gradient.transfer = 0;
      stage.SetEach(std::move(each));
    }
    std::vector<int> next(static_cast<size_t>(microbatches), 0);
    Order order;
    std::vector<Order> all;
    AddOrders(microbatches, split, &next, &order, &all);
    int64_t best = kNoLimit;
    for (const Order& first : all) {
      for (const Order& second : all) {
        best = std::min(best, MakespanOfTwo(problem, first, second));
      }
    }
    const int64_t bound = LowerBoundOf(problem);
    ASSERT_LE(bound, best) << "seed " << seed << "\n" << Print(problem);
    const Proven proven = SolveExactly(problem, kNoLimit, 10'000);
    ASSERT_LE(proven.bound, best) << "seed " << seed << "\n" << Print(problem);
    const std::optional<int64_t> in_turn = BestOfAll(problem, 100'000);
    ASSERT_TRUE(in_turn.has_value());
    ASSERT_GE(*in_turn, best);
    const Found found = FindOrders(problem, {}, {.iterations = 2000});
    EXPECT_EQ(found.value, *in_turn) << "seed " << seed << "\n" << Print(problem);
    EXPECT_LE(found.bound, best) << "seed " << seed << "\n" << Print(problem);
    met += bound == best;
    overtakes += best < *in_turn;
  }
  EXPECT_GT(met, kCases / 4);
  EXPECT_GT(overtakes, 0) << "no case shows that words are not all orders";
}

// Spans and periods begin at any time, and memory binds.
TEST(UnequalOrders, NoOrderInTurnIsBelowTheBound) {
  const uint64_t seed = 18;
  std::mt19937_64 random(seed);
  int judged = 0;
  for (int i = 0; i < 600; ++i) {
    const Problem problem = WithUnequalMicrobatches(RandomProblem(random, 3, 3), random);
    const std::optional<int64_t> best = BestOfAll(problem, 2000);
    if (!best) continue;
    const BoundParts parts = PartsOfBound(problem);
    ASSERT_LE(parts.sum(), *best) << "seed " << seed << ", case " << i << "\n"
                                  << Print(problem) << Print(parts);
    const Found found = FindOrders(problem, {}, {.iterations = 200});
    ASSERT_LE(found.bound, *best) << "seed " << seed << ", case " << i << "\n" << Print(problem);
    if (found.words.empty()) continue;
    ASSERT_EQ(found.value, ValueOf(problem, found.words));
    ++judged;
  }
  EXPECT_GT(judged, 150);
}

}  // namespace
}  // namespace stringline::search
