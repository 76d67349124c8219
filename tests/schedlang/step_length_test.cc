// Costs whose sums no 64-bit number of nanoseconds holds.
#include "schedlang/costs/step_length.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/lower/lower.h"
#include "schedlang/search/problem_of.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

// Two stages; the microbatches count only as a number.
Plan Counted(int microbatches) {
  return PlanFromText(absl::StrCat("plan x P=2 M=", microbatches,
                                   "\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n"));
}

TEST(StepLength, WhatAddsUpToTooMuchIsRefused) {
  constexpr const char* kMost = "1000000s";  // a single cost
  const struct {
    std::string costs;
    int microbatches;
    bool fits;
  } rows[] = {
      {"F=1,B=2", 1'000'000, true},
      {absl::StrCat("F=", kMost, ",B=1"), 2000, true},
      {absl::StrCat("F=", kMost, ",B=1"), 3000, false},
      {absl::StrCat("F=1,B=", kMost), 3000, false},
      {absl::StrCat("F=1,I=1,W=", kMost), 3000, false},
      {absl::StrCat("F=1,B=1,p2p=", kMost), 3000, false},
      {absl::StrCat("F=1,B=1,FB=", kMost), 3000, false},
      {absl::StrCat("F=1,B=1,unshard=", kMost), 3000, false},
      {absl::StrCat("F=1,B=1,reduce=", kMost), 3000, true},  // once a step
      {"F=1000s,B=1,jitter=5000%", 3000, true},
      {"F=10000s,B=1,jitter=9000%", 1000, false},
  };
  for (const auto& row : rows) {
    const absl::Status status =
        ResolveCosts(*ParseCosts(row.costs), Counted(row.microbatches)).status();
    EXPECT_EQ(status.ok(), row.fits) << row.costs << ": " << status;
    if (row.fits) continue;
    EXPECT_TRUE(absl::StartsWith(status.message(), "the costs are too large: ")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "give smaller costs")) << status;
  }
  EXPECT_EQ(
      ResolveCosts(*ParseCosts(absl::StrCat("F=1,B=", kMost)), Counted(3000)).status().message(),
      "the costs are too large: one after the other this step's actions take 6e+09 s, and "
      "times are counted up to 4.61e+09 s; B of stage 0 takes 1e+06 s (a number without a "
      "unit is a microsecond): give smaller costs, or fewer microbatches");
}

TEST(StepLength, ASearchNeedsMoreRoom) {
  const Plan plan = Counted(1000);
  const CostModel costs = *ResolveCosts(*ParseCosts("F=100000s,B=100000s,p2p=1"), plan);
  search::Limits limits;
  limits.whole = true;
  limits.split = false;
  EXPECT_TRUE(absl::StartsWith(search::ProblemOf(plan, costs, limits).status().message(),
                               "the costs are too large: "));
  EXPECT_TRUE(search::ProblemOf(Counted(100), costs, limits).ok());
}

TEST(StepLength, BlocksWhoseCostsAddUpToTooMuchAreRefused) {
  const char* const kCosts[] = {
      "costs F 1000000000, B 1;",
      "costs F 1, B l -> 1000000000;",
      "costs F 1, I 1, W 1000000000;",
      "costs F 1, B 1; pairs F & B costs 1000000000;",
  };
  for (const char* const costs : kCosts) {
    const std::string text =
        absl::StrCat("schedule s(P, M) { stages P on line; rank r search { layers 4096; prefer F, ",
                     absl::StrContains(costs, "W") ? "I, W; " : "B; ", costs, " } }");
    const std::string answer = Elaborated(text, {{"P", 1}, {"M", 100'000}});
    EXPECT_TRUE(absl::StrContains(answer, "error: the costs are too large: one after the other "))
        << costs << "\n"
        << answer;
  }
}

}  // namespace
}  // namespace stringline
