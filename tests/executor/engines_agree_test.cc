// The checker accepts exactly the plans whose replay ends and whose strict execution ends.
#include <cstdlib>
#include <random>

#include "executor/rehearsal/strict.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "schedlang/check/replay.h"
#include "tests/schedlang/engines.h"

namespace stringline {
namespace {

struct Tally {
  int64_t sound = 0;
  int64_t unsound = 0;
  int64_t disagreements = 0;
};

void Compare(const Plan& plan, Tally* tally) {
  Diagnostics diagnostics;
  const bool checked = Check(plan, &diagnostics);
  const bool ends = Ends(plan);
  const absl::Status strict = RunStrict(plan);
  ++(checked ? tally->sound : tally->unsound);
  if (checked == ends && checked == strict.ok()) return;
  if (++tally->disagreements > 3) return;
  ADD_FAILURE() << Print(plan) << "check " << checked << ", replay " << ends << ", executor "
                << strict;
}

TEST(EnginesAgree, OnEverySmallPlan) {
  Tally tally;
  const int64_t plans = ForEachSmallPlan([&](const Plan& plan) { Compare(plan, &tally); });
  EXPECT_EQ(tally.disagreements, 0);
  EXPECT_EQ(tally.sound + tally.unsound, plans);
  EXPECT_GT(tally.sound, 0);
  EXPECT_GT(tally.unsound, 0);
}

TEST(EnginesAgree, OnTenThousandRandomPlans) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Tally tally;
  for (int i = 0; i < 10'000; ++i) Compare(RandomPlan(random), &tally);
  EXPECT_EQ(tally.disagreements, 0);
  EXPECT_GT(tally.sound, 1000);
  EXPECT_GT(tally.unsound, 1000);
}

TEST(EnginesAgree, OnRandomPlansWithRows) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Tally tally;
  const int plans = std::getenv("STRINGLINE_LONG") != nullptr ? 100'000 : 3'000;
  for (int i = 0; i < plans; ++i) Compare(RandomPlan(random, /*with_rows=*/true), &tally);
  EXPECT_EQ(tally.disagreements, 0);
  EXPECT_GT(tally.sound, plans / 10);
  EXPECT_GT(tally.unsound, plans / 10);
}

// The same with messages on shared communicators.
TEST(EnginesAgree, InEveryLayout) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const CommLayout layout :
       {CommLayout::kEdge, CommLayout::kPair, CommLayout::kUpDown, CommLayout::kShared}) {
    Tally tally;
    for (int i = 0; i < 3'000; ++i) {
      const Plan plan = RandomPlan(random);
      Diagnostics diagnostics;
      const bool checked = Check(plan, {.layout = layout}, &diagnostics);
      const absl::Status strict = RunStrict(plan, layout);
      ++(checked ? tally.sound : tally.unsound);
      if (checked == strict.ok() || ++tally.disagreements > 3) continue;
      ADD_FAILURE() << Print(plan) << NameOf(layout) << ": check " << checked << ", executor "
                    << strict;
    }
    EXPECT_EQ(tally.disagreements, 0) << NameOf(layout);
    EXPECT_GT(tally.sound, 100) << NameOf(layout);
    EXPECT_GT(tally.unsound, 100) << NameOf(layout);
  }
}

}  // namespace
}  // namespace stringline
