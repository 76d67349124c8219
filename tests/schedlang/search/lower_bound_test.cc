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
  int judged = 0, tight = 0, none = 0;
  for (int i = 0; i < 6000; ++i) {
    const Problem problem = RandomProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 3000);
    if (!best) continue;
    const BoundParts parts = PartsOfBound(problem);
    ASSERT_LE(parts.sum(), *best) << "seed " << seed << ", case " << i << "\n"
                                  << Print(problem) << Print(parts);
    ++judged;
    tight += parts.sum() == *best;
    none += *best == kNoLimit;
  }
  std::cout << judged << " judged, " << tight << " tight, " << none << " without an order\n";
  EXPECT_GT(judged, 1000);
}

}  // namespace
}  // namespace stringline::search
