// The exact solver against all orders of tiny problems, and against known optima.
#include "schedlang/search/exact.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "schedlang/search/lower_bound.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

constexpr int64_t kMostNodes = 300'000;

TEST(ExactTest, TheBestOfATinyProblemIsFound) {
  const uint64_t seed = 41;
  std::mt19937_64 random(seed);
  int judged = 0;
  for (int i = 0; i < 4000; ++i) {
    const Problem problem = RandomProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 3000);
    if (!best) continue;
    const Proven proven = SolveExactly(problem, kNoLimit, kMostNodes);
    const std::string where = absl::StrCat("seed ", seed, ", case ", i, "\n", Print(problem));
    ASSERT_TRUE(proven.finished) << where;
    ASSERT_EQ(proven.value, *best) << where;
    ASSERT_EQ(proven.words.empty(), *best == kNoLimit) << where;
    ++judged;
    if (proven.words.empty()) continue;
    ASSERT_TRUE(IsComplete(problem, proven.words)) << where;
    ASSERT_EQ(ValueOf(problem, proven.words), *best) << where;
    const Proven none = SolveExactly(problem, *best, kMostNodes);
    ASSERT_TRUE(none.finished && none.words.empty() && none.value == *best) << where;
    const Proven again = SolveExactly(problem, *best + 1, kMostNodes);
    ASSERT_TRUE(again.finished && again.value == *best && !again.words.empty()) << where;
  }
  EXPECT_GT(judged, 1000);
}

TEST(ExactTest, ThreadsChangeNothing) {
  const DoAll on_threads = [](int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  };
  const uint64_t seed = 47;
  std::mt19937_64 random(seed);
  int64_t nodes = 0;
  for (int i = 0; i < 60; ++i) {
    const Problem problem = BindingProblem(random, 4, 5);
    for (const int64_t most : {500, 5'000}) {
      const std::string where = absl::StrCat("seed ", seed, ", case ", i, "\n", Print(problem));
      const Proven alone = SolveExactly(problem, kNoLimit, most);
      const Proven beside = SolveExactly(problem, kNoLimit, most, on_threads);
      ASSERT_EQ(beside.words, alone.words) << where;
      ASSERT_EQ(beside.value, alone.value) << where;
      ASSERT_EQ(beside.bound, alone.bound) << where;
      ASSERT_EQ(beside.nodes, alone.nodes) << where;
      nodes += alone.nodes;
    }
  }
  EXPECT_GT(nodes, 50'000);
}

TEST(ExactTest, TheBestIsFoundWhereMemoryOrMessagesBind) {
  const uint64_t seed = 42;
  std::mt19937_64 random(seed);
  int judged = 0;
  for (int i = 0; i < 1500; ++i) {
    Problem problem = BindingProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 2000);
    if (!best) continue;
    const std::string where = absl::StrCat("seed ", seed, ", case ", i, "\n", Print(problem));
    const Proven proven = SolveExactly(problem, kNoLimit, kMostNodes);
    ASSERT_TRUE(proven.finished) << where;
    ASSERT_EQ(proven.value, *best) << where;
    ASSERT_EQ(proven.bound, *best) << where;
    ++judged;
    // With a capacity of one less than the least need of a rank, no order exists.
    const int rank = static_cast<int>(random() % static_cast<uint64_t>(problem.ranks));
    const int64_t least = LeastCapacity(problem, rank);
    if (least == 0) continue;
    problem.capacity[rank] = least - 1;
    ASSERT_EQ(LowerBoundOf(problem), kNoLimit) << where;
    const Proven none = SolveExactly(problem, kNoLimit, kMostNodes);
    ASSERT_TRUE(none.finished && none.words.empty()) << where;
  }
  EXPECT_GT(judged, 600);
}

// Ranks 0 to P-1, and back again for a V, so many times.
std::vector<int> Line(int p) {
  std::vector<int> ranks;
  for (int r = 0; r < p; ++r) ranks.push_back(r);
  return ranks;
}
std::vector<int> Waves(int p, int waves) {
  std::vector<int> ranks;
  for (int w = 0; w < waves; ++w) {
    for (int r = 0; r < p; ++r) ranks.push_back(r);
    for (int r = p; r-- > 0;) ranks.push_back(r);
  }
  return ranks;
}

Problem Limited(Problem problem, int64_t activations, Objective objective) {
  if (activations > 0) problem.capacity.assign(problem.ranks, activations);
  problem.objective = objective;
  return problem;
}

TEST(ExactTest, EqualStagesInALineAreProvenFast) {
  for (const Objective objective : {Objective::kMakespan, Objective::kSpan, Objective::kPeriod}) {
    for (int p = 1; p <= 4; ++p) {
      for (int m = 1; m <= 8; ++m) {
        for (const int most : {p, 2 * p, 0}) {
          const Problem problem = Limited(OnRanks(Line(p), m, Costs(1, 2, 1, 1)), most, objective);
          const Proven proven = SolveExactly(problem, kNoLimit, 20'000);
          EXPECT_TRUE(proven.finished) << Print(problem);
          EXPECT_EQ(ValueOf(problem, proven.words), proven.value);
          // All optima of the line meet the bound.
          EXPECT_EQ(LowerBoundOf(problem), proven.value) << Print(problem);
        }
      }
    }
  }
}

struct Known {
  const char* name;
  Problem problem;
  int64_t value;
};

std::vector<Known> KnownOptima() {
  const auto split = [](int p, int m, int64_t most, Objective objective) {
    return Limited(OnRanks(Line(p), m, Costs(1, 2, 1, 1)), most, objective);
  };
  const auto v = [](int p, int m, int64_t most, Objective objective) {
    return Limited(OnRanks(Waves(p, 1), m, Costs(1, 2, 1, 1)), most, objective);
  };
  const auto whole = [](const std::vector<int>& ranks, int m, int64_t most) {
    Problem problem = Limited(OnRanks(ranks, m, Costs(1, 2, 0, 0)), most, Objective::kMakespan);
    problem.whole = true;
    problem.split = false;
    return problem;
  };
  const Objective makespan = Objective::kMakespan, span = Objective::kSpan;
  return {
      {"any memory, from that of ZB-H1 on", split(3, 6, 3, makespan), 20},
      {"any memory, from that of ZB-H1 on", split(4, 6, 4, makespan), 21},
      {"any memory, from that of ZB-H1 on", split(4, 6, 8, makespan), 21},
      {"any memory, from that of ZB-H1 on", split(4, 6, 0, makespan), 21},
      {"ZB-H1: (P-1)(F+B-W)", split(4, 8, 4, span), 27},
      {"ZB-H2", split(3, 6, 5, span), 18},
      {"ZB-H2", split(4, 8, 7, span), 24},
      {"one activation less than ZB-H2's", split(4, 8, 6, span), 25},
      {"ZB-V", v(2, 4, 4, span), 24},
      {"ZB-V", v(3, 5, 6, span), 30},
      {"ZB-V ends no earlier", v(4, 8, 8, makespan), 51},
      {"a V with 3 chunks", v(2, 8, 3, span), 51},
      {"a V with 4 chunks", v(3, 8, 4, makespan), 53},
      {"1F1B: (M+P-1)(F+B)", whole(Line(3), 6, 3), 24},
      {"1F1B: (M+P-1)(F+B)", whole(Line(4), 8, 4), 33},
      {"Hanayo", whole(Waves(2, 1), 2, 0), 16},
      {"Hanayo", whole(Waves(2, 2), 2, 0), 28},
      {"Hanayo", whole(Waves(3, 1), 3, 0), 26},
      {"Hanayo", whole(Waves(3, 2), 3, 0), 44},
      {"Hanayo", whole(Waves(4, 1), 4, 0), 36},
  };
}

TEST(ExactTest, KnownOptimaAreProven) {
  for (const Known& known : KnownOptima()) {
    SCOPED_TRACE(absl::StrCat(known.name, "\n", Print(known.problem)));
    const Proven proven = SolveExactly(known.problem, kNoLimit, 100'000);
    EXPECT_TRUE(proven.finished);
    EXPECT_EQ(proven.value, known.value);
  }
}

TEST(ExactTest, StopsWhereItMay) {
  const Problem problem = Limited(OnRanks(Waves(4, 1), 8, Costs(1, 2, 1, 1)), 6, Objective::kSpan);
  const Proven few = SolveExactly(problem, kNoLimit, 3'000);
  EXPECT_FALSE(few.finished);
  EXPECT_LE(few.nodes, 3'100);
  EXPECT_GE(few.value, 53);
  EXPECT_LE(few.bound, 53);
  EXPECT_GE(few.bound, LowerBoundOf(problem));
  EXPECT_EQ(SolveExactly(problem, kNoLimit, 3'000).words, few.words);

  const Problem none = Limited(problem, 1, Objective::kSpan);
  const Proven nothing = SolveExactly(none, kNoLimit, 3'000);
  EXPECT_TRUE(nothing.finished);
  EXPECT_TRUE(nothing.words.empty());
  EXPECT_EQ(nothing.nodes, 0);
}

TEST(ExactTest, IsBetweenTheBoundAndRandomOrders) {
  const uint64_t seed = 1414;
  std::mt19937_64 random(seed);
  int finished = 0;
  for (int i = 0; i < 300; ++i) {
    Problem problem = RandomProblem(random, 4, 6);
    if (problem.objective == Objective::kPeriod) problem.objective = Objective::kSpan;
    const std::string where = absl::StrCat("seed ", seed, ", case ", i, "\n", Print(problem));
    const int64_t bound = LowerBoundOf(problem);
    const Proven proven = SolveExactly(problem, kNoLimit, 1'000);
    EXPECT_LE(bound, proven.bound) << where;
    EXPECT_LE(proven.bound, proven.value) << where;
    finished += proven.finished;
    for (int k = 0; k < 20; ++k) {
      const Words words = RandomWords(problem, random);
      if (words.empty()) continue;
      EXPECT_LE(proven.bound, ValueOf(problem, words)) << where;
    }
  }
  EXPECT_GT(finished, 200);
}

}  // namespace
}  // namespace stringline::search
