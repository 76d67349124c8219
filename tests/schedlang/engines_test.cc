// The checker says yes exactly when the replay ends. (The strict executor joins in in
// tests/executor.)
#include "tests/schedlang/engines.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "schedlang/check/check.h"
#include "schedlang/check/replay.h"
#include "tests/schedlang/exhaustive.h"

namespace stringline {
namespace {

bool Checks(const Plan& plan) {
  Diagnostics diagnostics;
  return Check(plan, &diagnostics);
}

TEST(Engines, AgreeOnEverySmallPlan) {
  int64_t good = 0;
  const int64_t all = ForEachSmallPlan([&](const Plan& plan) {
    const bool ends = Ends(plan);
    good += ends;
    ASSERT_EQ(Checks(plan), ends) << Print(plan);
  });
  RecordProperty("plans", static_cast<int>(all));
  EXPECT_GT(all, 10'000);
  EXPECT_GT(good, 100);
  EXPECT_GT(all - good, 100);
}

TEST(Engines, AgreeOnRandomPlans) {
  const uint64_t seed = 20260601;
  std::mt19937_64 random(seed);
  int good = 0;
  constexpr int kPlans = 10'000;
  for (int i = 0; i < kPlans; ++i) {
    const Plan plan = RandomPlan(random);
    const bool ends = Ends(plan);
    good += ends;
    ASSERT_EQ(Checks(plan), ends) << "seed " << seed << ", plan " << i << "\n" << Print(plan);
  }
  EXPECT_GT(good, kPlans / 4) << "seed " << seed;
  EXPECT_LT(good, kPlans * 3 / 4) << "seed " << seed;
}

// Checker, replay and the judge, which tries every interleaving where it can, agree on random
// plans; draw(random, i) gives the i-th.
template <typename Draw>
void ExpectAgree(const Draw& draw) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int good = 0, judged = 0;
  const int plans = std::getenv("STRINGLINE_LONG") != nullptr ? 100'000 : 3'000;
  for (int i = 0; i < plans; ++i) {
    const Plan plan = draw(random, i);
    const bool ends = Ends(plan);
    good += ends;
    ASSERT_EQ(Checks(plan), ends) << "plan " << i << "\n" << Print(plan);
    if (plan.actions.size() > 60) continue;
    const Verdict verdict = JudgeExhaustively(plan, {}, 5'000);
    if (verdict == Verdict::kTooLarge) continue;
    ++judged;
    ASSERT_EQ(verdict == Verdict::kGood, ends) << "plan " << i << "\n" << Print(plan);
  }
  EXPECT_GT(good, plans / 8);
  EXPECT_LT(good, plans * 7 / 8);
  EXPECT_GT(judged, plans / 30);
}

// The judge reads the rows of own actions by itself.
TEST(Engines, AgreeOnRandomPlansWithRows) {
  ExpectAgree([](auto& random, int) { return RandomPlan(random, /*with_rows=*/true); });
}

// Microbatches have slices; every third plan has rows, too.
TEST(Engines, AgreeOnRandomPlansWithSlices) {
  ExpectAgree([](auto& random, int i) {
    return RandomPlan(random, /*with_rows=*/i % 3 == 0, /*slices=*/2 + i % 2);
  });
}

TEST(Engines, AgreeOnRandomPlansWithoutBackwards) {
  ExpectAgree([](auto& random, int i) {
    return RandomPlan(random, /*with_rows=*/false, /*slices=*/1 + i % 3, /*forward_only=*/true);
  });
}

// Stages are no chain: some have several inputs and outputs, or none.
TEST(Engines, AgreeOnRandomPlansWithEdges) {
  ExpectAgree([](auto& random, int i) {
    return RandomPlan(random, /*with_rows=*/false, /*slices=*/1 + i % 2,
                      /*forward_only=*/i % 5 == 0, /*with_edges=*/true);
  });
}

}  // namespace
}  // namespace stringline
