// The bound against all orders of tiny problems, against random orders of larger ones, and against
// published bounds.
#include "schedlang/search/lower_bound.h"

#include <gtest/gtest.h>

#include "schedlang/search/exact.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

TEST(LowerBoundTest, NoOrderOfATinyProblemIsBelow) {
  const uint64_t seed = 14;
  std::mt19937_64 random(seed);
  int judged = 0;
  int64_t below = 0;  // by how much all of them are
  for (int i = 0; i < 6000; ++i) {
    const Problem problem = RandomProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 3000);
    if (!best) continue;
    const BoundParts parts = PartsOfBound(problem);
    ASSERT_LE(parts.sum(), *best) << "seed " << seed << ", case " << i << "\n"
                                  << Print(problem) << Print(parts);
    ++judged;
    below += *best - parts.sum();
  }
  EXPECT_GT(judged, 1000);
  // Bounds that say less than they did: the sum was this with the same problems.
  EXPECT_LE(below, 1766);
}

TEST(LowerBoundTest, NoOrderIsBelowWhereMemoryOrMessagesBind) {
  const uint64_t seed = 16;
  std::mt19937_64 random(seed);
  int judged = 0;
  int64_t below = 0;  // by how much all of them are
  for (int i = 0; i < 3000; ++i) {
    const Problem problem = BindingProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 2000);
    if (!best) continue;
    const BoundParts parts = PartsOfBound(problem);
    ASSERT_LE(parts.sum(), *best) << "seed " << seed << ", case " << i << "\n"
                                  << Print(problem) << Print(parts);
    // An order exists exactly if every rank has its least memory.
    bool has_room = true;
    for (int r = 0; r < problem.ranks; ++r) {
      has_room = has_room && problem.capacity[r] >= LeastCapacity(problem, r);
    }
    ASSERT_EQ(has_room, *best < kNoLimit) << Print(problem);
    ASSERT_EQ(has_room, parts.sum() < kNoLimit) << Print(problem);
    ++judged;
    below += *best - parts.sum();
  }
  EXPECT_GT(judged, 1000);
  // As above.
  EXPECT_LE(below, 1851);
}

// A rank that holds one microbatch sends the next one when the gradient of the last one is back: so
// many round trips, each with its messages; of a rank that holds two, half as many. What a rank
// computes is hidden by them.
TEST(LowerBoundTest, OfSlowMessagesAndLittleMemoryRoundTripsAreLeft) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (const int64_t latency : {20, 50}) {
      for (const int64_t transfer : {0, 3}) {
        for (const int64_t held : {1, 2}) {
          StageWork costs = Costs(2, 5, 0, 0, latency);
          costs.activation.transfer = costs.gradient.transfer = transfer;
          std::vector<int> line;
          for (int r = 0; r < ranks; ++r) line.push_back(r);
          constexpr int kMicrobatches = 6;
          Problem problem = OnRanks(line, kMicrobatches, costs);
          problem.whole = true;
          problem.split = false;
          problem.capacity[0] = held;
          const int64_t trip = ranks * (2 + 5) + 2 * (ranks - 1) * (latency + transfer);
          const int64_t trips = kMicrobatches / held * trip;
          // The second of two microbatches is a whole F and B of the last rank later.
          const int64_t best = trips + (held - 1) * (2 + 5);
          EXPECT_EQ(LowerBoundOf(problem), best) << Print(problem);
          EXPECT_EQ(SolveExactly(problem, kNoLimit, 1'000).value, best) << Print(problem);
        }
      }
    }
  }
}

// Problems that are too large for all orders, against the best one, which is proven.
TEST(LowerBoundTest, IsNearTheBestWhereMemoryOrMessagesBind) {
  const uint64_t seed = 17;
  std::mt19937_64 random(seed);
  int judged = 0;
  int64_t below = 0;  // by how much all of them are
  for (int i = 0; i < 400; ++i) {
    Problem problem = BindingProblem(random, 3, 8);
    problem.objective = Objective::kMakespan;
    const Proven proven = SolveExactly(problem, kNoLimit, 1'000);
    if (!proven.finished) continue;
    const int64_t bound = LowerBoundOf(problem);
    ASSERT_LE(bound, proven.value) << "seed " << seed << ", case " << i << "\n" << Print(problem);
    ++judged;
    below += proven.value - bound;
  }
  // Bounds that say less than they did prove less, and are further away.
  EXPECT_GE(judged, 345);
  EXPECT_LE(below, 1009);
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
  // Three ranks with a capacity of three: the first rank has the longest way there and back.
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
  // Bytes: the memory that an I needs while running counts at the turn.
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
