// The checker says yes exactly when the replay ends. (The strict executor joins in in
// tests/executor.)
#include "tests/schedlang/engines.h"

#include <gtest/gtest.h>

#include "schedlang/check/check.h"
#include "schedlang/check/replay.h"

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

}  // namespace
}  // namespace stringline
