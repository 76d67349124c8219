// Orders in several draws and steps at once, beside the plain evaluation of each.
#include "schedlang/search/drawn_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "schedlang/search/lower_bound.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

Draws RandomDraws(const Problem& problem, std::mt19937_64& random) {
  Draws draws{.count = 1 + static_cast<int>(random() % 5)};
  size_t actions = 0;
  for (const StageWork& stage : problem.stages) actions += 4 * stage.microbatches;
  std::uniform_real_distribution<float> factor(0.5F, 2.0F);
  draws.factors.resize(actions * static_cast<size_t>(draws.count));
  for (float& one : draws.factors) one = factor(random);
  return draws;
}

TEST(DrawnTimes, OfOneDrawAreThoseOfTheProblem) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Problem problem = RandomProblem(random, 4, 5);
    if (seed % 2 == 0) problem = WithUnequalMicrobatches(std::move(problem), random);
    const Words words = RandomWords(problem, random);
    DrawnTimes drawn(problem, {});
    if (words.empty()) continue;
    ASSERT_TRUE(drawn.Run(words));
    ASSERT_EQ(drawn.Makespans(), std::vector{TimesOf(problem, words).makespan}) << Print(problem);
    EXPECT_EQ(drawn.LeastMean(), 1.0);
  }
}

// Updates lie behind each step of a rank: the plain evaluation has none.
TEST(DrawnTimes, StepsFollowEachOther) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Problem problem = RandomProblem(random, 4, 4);
    const Words words = RandomWords(problem, random);
    constexpr int kSteps = 6;
    if (words.empty()) continue;
    DrawnTimes drawn(problem, {.steps = kSteps});
    ASSERT_TRUE(drawn.Run(words));
    const Times times = TimesOf(problem, words, kSteps);
    int64_t period = 0;
    for (size_t r = 0; r < words.size(); ++r) {
      if (words[r].empty()) continue;
      const size_t length = words[r].size();
      const int64_t took = times.ends[r][5 * length - 1] - times.ends[r][length - 1];
      period = std::max(period, (took + 3) / 4);
    }
    ASSERT_EQ(drawn.Period(), period) << Print(problem);
    DrawnTimes updated(problem,
                       {.steps = kSteps,
                        .update = std::vector<int64_t>(static_cast<size_t>(problem.ranks), 1000)});
    ASSERT_TRUE(updated.Run(words));
    EXPECT_GE(updated.Period(), period);
    EXPECT_LE(updated.Period(), TimesOf(problem, words).span + 1000 + period);
  }
}

TEST(DrawnTimes, DrawsAreProblemsOfTheirOwn) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Problem problem = RandomProblem(random, 4, 4);
    problem.objective = Objective::kMakespan;
    problem.whole_pairs.clear();
    problem.input_pairs.clear();
    const Words words = RandomWords(problem, random);
    if (words.empty()) continue;
    const Draws draws = RandomDraws(problem, random);
    DrawnTimes drawn(problem, draws);
    ASSERT_TRUE(drawn.Run(words));
    const std::vector<int64_t> makespans = drawn.Makespans();
    for (int k = 0; k < draws.count; ++k) {
      ASSERT_EQ(makespans[static_cast<size_t>(k)], TimesOf(drawn.OfDraw(k), words).makespan);
    }
    // The mean of the times is no more than the time at mean lengths.
    const int64_t sum = std::accumulate(makespans.begin(), makespans.end(), int64_t{0});
    EXPECT_LE(TimesOf(drawn.OfMeans(), words).makespan * draws.count, sum);
    EXPECT_LE(LowerBoundOf(drawn.OfMeans()) * draws.count, sum);
  }
}

TEST(DrawnTimes, OfOrdersThatNeverEndThereAreNone) {
  Problem problem = OnRanks({0, 1}, 1, Costs(1, 2, 1, 1));
  const Group forward{LetterOf(ActionKind::kForward, 0)},
      input{LetterOf(ActionKind::kInputGradient, 0)};
  DrawnTimes drawn(problem, {});
  EXPECT_FALSE(drawn.Run({{input, forward}, {}}));
}

}  // namespace
}  // namespace stringline::search
