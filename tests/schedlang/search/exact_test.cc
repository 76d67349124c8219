// The exact solver against all orders of tiny problems, and against optima that are known.
#include "schedlang/search/exact.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stringline::search
