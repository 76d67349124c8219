// The bound against all orders of tiny problems, against random orders of larger ones, and against
// what is published.
#include "schedlang/search/lower_bound.h"

#include <gtest/gtest.h>

#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

TEST(LowerBoundTest, NoOrderOfATinyProblemIsBelow) {
  const uint64_t seed = 14;
  std::mt19937_64 random(seed);
  int judged = 0, tight = 0;
  for (int i = 0; i < 6000; ++i) {
    const Problem problem = RandomProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 3000);
    if (!best) continue;
    const BoundParts parts = PartsOfBound(problem);
    ASSERT_LE(parts.sum(), *best) << "seed " << seed << ", case " << i << "\n"
                                  << Print(problem) << Print(parts);
    ++judged;
    tight += parts.sum() == *best;
  }
  EXPECT_GT(judged, 1000);
  EXPECT_GT(tight * 100, judged * 85);
}

TEST(LowerBoundTest, NoRandomOrderIsBelow) {
  const uint64_t seed = 15;
  std::mt19937_64 random(seed);
  int judged = 0;
  for (int i = 0; i < 600; ++i) {
    const Problem problem = RandomProblem(random, 6, 12);
    const BoundParts parts = PartsOfBound(problem);
    for (int k = 0; k < 5; ++k) {
      const Words words = RandomWords(problem, random);
      if (words.empty()) continue;
      ASSERT_TRUE(IsComplete(problem, words));
      ASSERT_LE(parts.sum(), ValueOf(problem, words)) << "seed " << seed << ", case " << i << "\n"
                                                      << Print(problem) << Print(parts);
      ++judged;
    }
  }
  EXPECT_GT(judged, 1000);
}

TEST(LowerBoundTest, SaysWhatItIsMadeOf) {
  // Three ranks that hold three: the first rank has the longest way there and back.
  Problem problem = OnRanks({0, 1, 2}, 8, Costs(1, 2, 1, 1));
  problem.capacity.assign(3, 3);
  EXPECT_EQ(Print(PartsOfBound(problem)),
            "rank 0: 0 before its first action, 24 of work, 2 of idle time in warm-up, 0 behind");
  problem.objective = Objective::kSpan;
  EXPECT_EQ(Print(PartsOfBound(problem)),
            "rank 0: 0 before its first action, 24 of work, 2 of idle time in warm-up, 0 behind");
  problem.capacity.assign(3, 1);
  EXPECT_EQ(Print(PartsOfBound(problem)),
            "rank 0: 0 before its first action, 24 of work, 32 of idle time in warm-up, 0 behind");
  problem.capacity[1] = 0;
  EXPECT_EQ(Print(PartsOfBound(problem)), "rank 1 cannot hold one microbatch");
  EXPECT_EQ(LowerBoundOf(problem), kNoLimit);
  EXPECT_EQ(Print(PartsOfBound(Problem())), "nothing to do");
}

TEST(LowerBoundTest, ARankHoldsItsStagesOfAMicrobatchAtOnce) {
  Problem problem = OnRanks({0, 1, 1, 0}, 4, Costs(1, 2, 1, 1));
  EXPECT_EQ(LeastCapacity(problem, 0), 2);
  problem.capacity.assign(2, 2);
  EXPECT_LT(LowerBoundOf(problem), kNoLimit);
  problem.capacity[1] = 1;
  EXPECT_EQ(LowerBoundOf(problem), kNoLimit);
  // Bytes: what an I needs while it runs counts at the turn.
  for (StageWork& stage : problem.stages) {
    stage.during = {12, 0, 15, 0};
    stage.after = {10, -10, 5, -15};
  }
  EXPECT_EQ(LeastCapacity(problem, 1), 35);
  problem.whole = true;
  EXPECT_EQ(LeastCapacity(problem, 1), 22);
}

TEST(LowerBoundTest, StartsAreKnownInALineAndAVAlone) {
  StageWork costs = Costs(2, 4, 2, 2, 1);
  EXPECT_EQ(KnownStarts(OnRanks({0, 1, 2}, 4, costs)), (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(KnownStarts(OnRanks({0, 1, 1, 0}, 4, costs)), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(KnownStarts(OnRanks({0, 1, 0, 2}, 4, costs)).empty());
  Problem both = OnRanks({0, 1}, 4, costs);
  AddPipe({1, 0}, 4, costs, &both);
  EXPECT_TRUE(KnownStarts(both).empty());
}

}  // namespace
}  // namespace stringline::search
