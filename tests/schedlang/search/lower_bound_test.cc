// The bound against all orders of tiny problems, against random orders of larger ones, and against
// published bounds.
#include "schedlang/search/lower_bound.h"

#include <gtest/gtest.h>

#include "schedlang/search/exact.h"
#include "schedlang/search/held_area.h"
#include "schedlang/search/recompute.h"
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

// The problem in which the chosen stages recompute: they hold 1 instead of `full`, and their B and
// I take their F longer.
Problem WithRecomputes(Problem problem, int64_t full, int choice) {
  for (int s = 0; s < problem.stage_count(); ++s) {
    StageWork& stage = problem.stages[static_cast<size_t>(s)];
    const bool again = (choice >> s & 1) != 0;
    const int64_t held = again ? 1 : full;
    stage.during = {full, full - held, full - held, 0};
    stage.after = {held, -held, 0, -held};
    if (!again) continue;
    stage.time[kWholeAt] += stage.time[kForwardAt];
    stage.time[kInputAt] += stage.time[kForwardAt];
  }
  return problem;
}

TEST(HeldAreaTest, NoChoiceOfATinyProblemIsBelow) {
  const uint64_t seed = 30;
  std::mt19937_64 random(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  int judged = 0, binding = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<std::vector<int>> places = {{0}, {0, 1}, {0, 0}, {0, 1, 0}};
    const std::vector<int>& ranks = places[static_cast<size_t>(draw(0, 3))];
    Problem plain = OnRanks(ranks, static_cast<int>(draw(2, 4)),
                            Costs(draw(1, 3), draw(1, 4), draw(1, 2), draw(1, 2)));
    plain.whole = draw(0, 1) == 1;
    plain.split = !plain.whole || draw(0, 1) == 1;
    const int64_t full = draw(2, 5);
    for (int64_t& capacity : plain.capacity) capacity = draw(full, 3 * full);
    const int all = (1 << ranks.size()) - 1;
    int64_t best = kNoLimit;
    bool is_known = true;
    for (int choice = 0; choice <= all; ++choice) {
      const std::optional<int64_t> own = BestOfAll(WithRecomputes(plain, full, choice), 20'000);
      is_known = is_known && own.has_value();
      best = std::min(best, own.value_or(kNoLimit));
    }
    if (!is_known) continue;
    const Problem none = WithRecomputes(plain, full, 0);
    const HeldTime held = LongestHeldTime(none, WithRecomputes(plain, full, all));
    ASSERT_LE(held.time, best) << "seed " << seed << ", case " << i << "\n" << Print(none);
    ++judged;
    if (held.time > LowerBoundOf(WithEitherChoice(none, WithRecomputes(plain, full, all)))) {
      ++binding;
    }
  }
  EXPECT_GT(judged, 150);
  EXPECT_GT(binding, 2);
}

TEST(HeldAreaTest, IsNoMoreThanAnyWholeChoiceNeeds) {
  const uint64_t seed = 31;
  std::mt19937_64 random(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  for (int i = 0; i < 500; ++i) {
    std::vector<HeldWork> held(static_cast<size_t>(draw(1, 8)));
    for (HeldWork& one : held) {
      one = {.work = draw(1, 20), .again = draw(0, 9), .area = draw(1, 200)};
      one.recomputed = draw(0, static_cast<int64_t>(one.area));
    }
    const int64_t ranks = draw(1, 3), capacity = draw(1, 12), waits = draw(0, 10);
    int64_t best = kNoLimit, none = kNoLimit;
    for (int choice = 0; choice < 1 << held.size(); ++choice) {
      int64_t work = waits, area = 0;
      for (size_t k = 0; k < held.size(); ++k) {
        const bool again = (choice >> k & 1) != 0;
        work += held[k].work + (again ? held[k].again : 0);
        area += static_cast<int64_t>(again ? held[k].recomputed : held[k].area);
      }
      const int64_t time = std::max((work + ranks - 1) / ranks, (area + capacity - 1) / capacity);
      if (choice == 0) none = time;
      best = std::min(best, time);
    }
    const int64_t least = LeastTimeToHold(held, static_cast<int>(ranks), capacity, waits);
    ASSERT_LE(least, best) << "seed " << seed << ", case " << i;
    // The bound is the need itself where nothing may recompute.
    for (HeldWork& one : held) one.recomputed = one.area;
    ASSERT_EQ(LeastTimeToHold(held, static_cast<int>(ranks), capacity, waits), none)
        << "seed " << seed << ", case " << i;
  }
}

}  // namespace
}  // namespace stringline::search
