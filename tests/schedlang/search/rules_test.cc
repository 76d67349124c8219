// Rules with a building block, rules turned round in time, and splices of orders: their orders are
// complete, a mirrored order takes as long as its mirror image, and a V of whole backwards has the
// times and the memory that its paper says.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedlang/search/building_block.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/mirrored.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/search.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

std::vector<int> V(int ranks) {
  std::vector<int> stages;
  for (int r = 0; r < ranks; ++r) stages.push_back(r);
  for (int r = ranks; r-- > 0;) stages.push_back(r);
  return stages;
}

Problem WholeV(int ranks, int microbatches, int64_t activations) {
  Problem problem = OnRanks(V(ranks), microbatches, Costs(1, 2, 1, 1));
  problem.whole = true;
  problem.split = false;
  problem.capacity.assign(static_cast<size_t>(ranks), activations);
  return problem;
}

// Whole backwards only, no pairs, and messages that only take a latency: nothing in such a problem
// tells its start from its end.
Problem SymmetricProblem(std::mt19937_64& random) {
  Problem problem = RandomProblem(random, 4, 5);
  problem.whole = true;
  problem.split = false;
  problem.whole_pairs.clear();
  problem.input_pairs.clear();
  problem.objective = Objective::kMakespan;
  for (StageWork& stage : problem.stages) {
    stage.activation.transfer = stage.gradient.transfer = 0;
    if (stage.next < 0) stage.activation = {};
    if (stage.previous < 0) stage.gradient = {};
  }
  return problem;
}

// 1F1B-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two thirds of the
// 2 P activations that 1F1B holds of half a stage each, and no idle time between its ends.
TEST(BuildingBlock, OfAVOfWholeBackwardsHoldsTwoThirds) {
  struct Row {
    int ranks, microbatches, activations;
    int64_t most;  // the makespan
  };
  for (const Row row : {Row{8, 32, 12, 235}, Row{16, 64, 22, 474}}) {
    const Problem problem = WholeV(row.ranks, row.microbatches, row.activations);
    Policy policy;
    policy.delay.assign(problem.stages.size() * 4, 0);
    policy.block = BuildingBlock{1, policy.delay};
    const Words words = ListOrders(problem, policy);
    ASSERT_TRUE(IsComplete(problem, words)) << row.ranks;
    EXPECT_LE(ValueOf(problem, words), row.most) << row.ranks;
    EXPECT_LE(row.activations, 4 * row.ranks / 3 + 2);
    Problem less = problem;
    less.capacity.assign(less.capacity.size(), row.activations - 1);
    EXPECT_TRUE(ListOrders(less, policy).empty()) << "the block holds less than is said";
  }
}

TEST(BuildingBlock, IsRepeatedWithoutUsingARankTwice) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const Problem problem = RandomProblem(random, 4, 6);
    const ActionKind back = problem.split ? ActionKind::kInputGradient : ActionKind::kBackward;
    BuildingBlock block{1.0 + static_cast<double>(random() % 3) / 4, {}};
    for (size_t i = 0; i < problem.stages.size() * 4; ++i) {
      block.delay.push_back(static_cast<int64_t>(random() % 3));
    }
    const auto sequences = SequencesOf(problem, block, back);
    if (sequences.empty()) continue;
    for (int r = 0; r < problem.ranks; ++r) {
      size_t expected = 0;
      for (const StageWork& stage : problem.stages) {
        if (stage.rank == r) expected += 2 * static_cast<size_t>(stage.microbatches);
      }
      EXPECT_EQ(sequences[static_cast<size_t>(r)].size(), expected) << "seed " << seed;
    }
    Policy policy;
    policy.delay.assign(problem.stages.size() * 4, 0);
    policy.block = block;
    const Words words = ListOrders(problem, policy);
    EXPECT_TRUE(words.empty() || IsComplete(problem, words)) << "seed " << seed;
  }
}

TEST(Mirrored, TwiceIsTheProblemItself) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const Problem problem = SymmetricProblem(random);
    const Problem twice = Mirrored(Mirrored(problem, ActionKind::kBackward), ActionKind::kBackward);
    EXPECT_EQ(Print(twice), Print(problem));
  }
}

TEST(Mirrored, OrdersTakeAsLongAndHoldAsMuch) {
  int complete = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const Problem problem = SymmetricProblem(random);
    const Problem mirrored = Mirrored(problem, ActionKind::kBackward);
    const Words words = RandomWords(mirrored, random);
    if (words.empty()) continue;
    ASSERT_TRUE(IsComplete(mirrored, words)) << "seed " << seed;
    const Words reversed = Reversed(words, ActionKind::kBackward);
    EXPECT_TRUE(IsComplete(problem, reversed)) << "seed " << seed << Print(problem);
    EXPECT_EQ(ValueOf(problem, reversed), ValueOf(mirrored, words)) << "seed " << seed;
    ++complete;
  }
  EXPECT_GT(complete, 200);
}

TEST(Spliced, BeginsLikeOneAndEndsLikeTheOther) {
  const Problem problem = WholeV(4, 12, 8);
  std::vector<Words> orders;
  for (const Policy& policy : PlainPolicies(problem)) {
    Words words = ListOrders(problem, policy);
    if (!words.empty()) orders.push_back(std::move(words));
  }
  ASSERT_GT(orders.size(), 10u);
  for (size_t i = 0; i + 1 < orders.size(); ++i) {
    const Times times = TimesOf(problem, orders[i]);
    EXPECT_EQ(Spliced(orders[i], times, orders[i + 1], 0), orders[i + 1]);
    EXPECT_EQ(Spliced(orders[i], times, orders[i + 1], times.makespan), orders[i]);
    const Words spliced = Spliced(orders[i], times, orders[i + 1], times.makespan / 2);
    for (size_t r = 0; r < spliced.size(); ++r) {
      EXPECT_TRUE(std::is_permutation(spliced[r].begin(), spliced[r].end(), orders[i][r].begin(),
                                      orders[i][r].end()));
      for (size_t k = 0; times.starts[r][k] < times.makespan / 2; ++k) {
        EXPECT_TRUE(spliced[r][k] == orders[i][r][k]) << r << " " << k;
      }
    }
  }
}

// Rules that only look ahead, and moves from their orders, end at 259.
TEST(FindOrders, ReachesTheBoundOfAVOfWholeBackwards) {
  const Problem problem = WholeV(8, 32, 12);
  const Found found = FindOrders(problem, {}, {400'000, 1});
  EXPECT_EQ(LowerBoundOf(problem), 225);
  EXPECT_LE(found.value, 227);
}

}  // namespace
}  // namespace stringline::search
