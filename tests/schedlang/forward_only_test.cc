// Schedules without backwards: the statement, what it refuses, what the checker proves, and times,
// bounds and bytes beside formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/costs/costs.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/plan.h"
#include "schedlang/report/bounds.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

constexpr const char* kStages = "forward only; stages P on line;";

std::string ForwardsOf(const std::string& ranks, const std::string& parameters,
                       const std::string& before = kStages) {
  return Elaborated(absl::StrCat("schedule s(P, M) { ", before, " rank r { ", ranks, " } }"),
                    ParametersOf(parameters));
}

std::string FindingOfForwards(const std::string& text, const CheckOptions& options = {}) {
  Diagnostics findings;
  Check(Lower(PlanFromText(text)), options, &findings);
  return findings.empty() ? "" : findings.findings()[0].text;
}

Plan ForwardPlan(const std::string& parameters) {
  Diagnostics findings;
  const Source source("x", ReadTestFile("schedules/inference.sched"));
  return Lower(*Elaborate(*Parse(source, &findings), "", ParametersOf(parameters), &findings));
}

CostModel ForwardCosts(const Plan& plan, const std::string& text) {
  const auto costs = ResolveCosts(*ParseCosts(text), plan);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return *costs;
}

TEST(ForwardOnly, APlanHasNoBackwards) {
  EXPECT_EQ(ForwardsOf("repeat M { F r }", "P=2 M=2"),
            "plan s P=2 M=2\nforward only\nstages 0 1\nrank 0: 0F0 0F1\nrank 1: 1F0 1F1\n");
  // The word is free as a name of an order.
  EXPECT_NE(ForwardsOf("order forward { F r } forward", "P=1 M=1").find("rank 0: 0F0\n"),
            std::string::npos);
  const std::string text =
      "plan s P=1 M=1 lowered\nslices 2\nforward only\nstages 0\n"
      "rank 0: 0F0.0 0F0.1\n";
  EXPECT_EQ(Print(PlanFromText(text)), text);
  EXPECT_EQ(FindingOfForwards("plan s P=2 M=2\nforward only\nstages 0 1\nrank 0: 0F1 0F0\n"
                              "rank 1: 1F1 1F0\n"),
            "");
  EXPECT_EQ(FindingOfForwards("plan s P=1 M=2\nforward only\nstages 0\nrank 0: 0F0\n"),
            "stage 0 on rank 0: microbatch 1 is never done");
  EXPECT_EQ(FindingOfForwards("plan s P=1 M=1\nforward only\nstages 0\nrank 0: 0F0 0F0\n"),
            "stage 0 on rank 0: microbatch 0 has its forward done twice");
  EXPECT_EQ(FindingOfForwards("plan s P=1 M=1\nstages 0\nrank 0: 0F0\n"),
            "stage 0 on rank 0: microbatch 0 has no backward");
  EXPECT_EQ(FindingOfForwards("plan s P=2 M=1\nforward only\nstages 0 1 0\nrank 0: 2F0 0F0\n"
                              "rank 1: 1F0\n"),
            "rank 0 waits forever at 2F0: it needs the activation of stage 1, microbatch 0");
  EXPECT_EQ(FindingOfForwards("plan s P=1 M=1\nslices 2\nforward only\nstages 0\n"
                              "rank 0: 0F0.1 0F0.0\n"),
            "rank 0 waits forever at 0F0.1 for the keys of stage 0, microbatch 0.0");
}

TEST(ForwardOnly, WhatIsForGradientsIsRefused) {
  const auto refused = [](const std::string& ranks, const char* words,
                          const std::string& before = kStages) {
    const std::string answer = ForwardsOf(ranks, "P=1 M=1", before);
    EXPECT_NE(answer.find(words), std::string::npos) << ranks << ": " << answer;
  };
  for (const char* const letter : {"B", "I", "D"}) {
    refused(absl::StrCat("F r; ", letter, " r"),
            absl::StrCat("'", letter, "' in a schedule that is forward only").c_str());
  }
  refused("F r; W", "'W' in a schedule that is forward only");
  refused("F r; update r", "'update' in a schedule that is forward only");
  refused("F r; reduce r", "'reduce' in a schedule that is forward only");
  refused("F r", "'recompute' is for gradients in a schedule that is forward only",
          "forward only; recompute all; stages P on line;");
  refused("F r", "'steps' counts updates, of which there are none",
          "forward only; steps 2; stages P on line;");
  refused("F r", "'versions' counts updates, of which there are none",
          "forward only; versions 2; stages P on line;");
  refused("F r", "a second 'forward only'", "forward only; forward only; stages P on line;");
  refused("forward only; F r", "'forward only' stands", "stages P on line;");
  const std::string base =
      absl::StrCat("schedule s(P, M) { ", kStages, " rank r { repeat M { F r } } }");
  for (const char* const then : {"defer W by 1", "recompute by 1", "offload by 1"}) {
    const std::string answer =
        Elaborated(absl::StrCat(base, " schedule t(P, M) = s(P, M) then ", then, ";"),
                   ParametersOf("P=1 M=1"));
    EXPECT_NE(answer.find("'s' is forward only: nothing of it is for a backward"),
              std::string::npos)
        << answer;
  }
  EXPECT_NE(Elaborated(base, ParametersOf("P=1 M=1 steps=2"))
                .find("'steps' counts updates, and 's' is forward only"),
            std::string::npos);
  EXPECT_NE(Elaborated(absl::StrCat("schedule s(P, M) { ", kStages,
                                    " rank r greedy { prefer B, F; hold at most P; costs F 1, B "
                                    "2; } }"),
                       ParametersOf("P=2 M=2"))
                .find("orders are found for forwards and backwards; list the forwards"),
            std::string::npos);
  EXPECT_NE(Elaborated(absl::StrCat("schedule s(P, M) { ", kStages,
                                    " rank r timetable { tighten; at 0 : F r } }"),
                       ParametersOf("P=1 M=1"))
                .find("'tighten' in a schedule that is forward only"),
            std::string::npos);
  EXPECT_NE(Elaborated(absl::StrCat("schedule s(P, M) { ", kStages,
                                    " rank r timetable { at 0 : F r; fill W } }"),
                       ParametersOf("P=1 M=1"))
                .find("'fill W' in a schedule that is forward only"),
            std::string::npos);
  Diagnostics findings;
  EXPECT_FALSE(ReadPlan(Source("x", "plan s P=1 M=1\nforward only\nstages 0\nrank 0: 0F0 0B0\n"),
                        &findings));
  EXPECT_EQ(findings.findings()[0].text, "0B0 stands in a plan that is forward only");
}

TEST(ForwardOnly, AStepTakesTheWayThroughThePipeline) {
  for (const int p : {1, 2, 5}) {
    for (const int m : {1, 4, 9}) {
      for (const int k : {1, 3}) {
        SCOPED_TRACE(absl::StrCat("P=", p, " M=", m, " K=", k));
        const Plan plan = ForwardPlan(absl::StrCat("P=", p, " M=", m, " K=", k));
        const CostModel costs = ForwardCosts(plan, absl::StrCat("F=", 6 * k, ",p2p=2"));
        const Timeline timeline = *Simulate(plan, costs);
        const int64_t expected = (m * k + p - 1) * 6000 + (p - 1) * 2000;
        EXPECT_EQ(MakespanOf(timeline), expected);
        EXPECT_EQ(LowerBoundOf(plan, costs).makespan_ns, expected);
        for (const Bubbles::Rank& rank : MeasureBubbles(timeline).ranks) {
          EXPECT_EQ(rank.peak_activations, 0);
          EXPECT_EQ(rank.busy_ns, m * k * 6000);
        }
      }
    }
  }
}

TEST(ForwardOnly, OnlyMessagesAndKeysAreHeld) {
  const Plan plan = ForwardPlan("P=2 M=3 K=4");
  const CostModel costs = ForwardCosts(
      plan, "F=4,memory.saved_for_I=100MB,memory.keys=4MB,memory.weights=10MB,message=8MB");
  const Timeline timeline = *Simulate(plan, costs);
  const MemoryCurves curves = MemoryOver(plan, timeline, costs.memory);
  const std::vector<StageSizes> sizes = SizesOfCosts(plan, costs.memory);
  // The last slice reads the keys of three; beside them there are the weights, and on the second
  // rank what came, on the first what goes.
  for (int r = 0; r < 2; ++r) {
    EXPECT_GE(curves.ranks[r].peak, 10'000'000 + 3'000'000) << r;
    EXPECT_LE(curves.ranks[r].peak, 10'000'000 + 3'000'000 + 2'000'000 + 4 * 2'000'000) << r;
    EXPECT_EQ(curves.ranks[r].at_peak[static_cast<size_t>(MemoryClass::kSavedForInput)], 0);
    const int64_t listed = PeakBytesOf(plan, RankId(r), sizes).bytes;
    // In the third slice: keys of two, and of three for the next one; a message in or out.
    EXPECT_EQ(listed, 10'000'000 + 2'000'000 + 3'000'000 + 2'000'000) << r;
  }
  EXPECT_TRUE(PlanMemory(plan, sizes).ok());
}

TEST(ForwardOnly, ParametersAreGatheredAndNothingIsReduced) {
  const Plan plan = AddCollectives(PlanFromText("plan s P=1 M=2\nforward only\nstages 0 0\nrank 0: "
                                                "0F0 1F0 0F1 1F1\n"),
                                   /*resident=*/1);
  EXPECT_NE(Print(plan).find("0UNSHARD"), std::string::npos) << Print(plan);
  EXPECT_EQ(Print(plan).find("REDUCE"), std::string::npos) << Print(plan);
  Diagnostics findings;
  EXPECT_TRUE(Check(Lower(plan), &findings)) << findings.findings()[0].text;
  const Plan pipes = Lower(
      PlanFromText("plan s P=2 M=2\nforward only\npipe a M=1 stages 0 1\npipe b M=1 stages 1 0\n"
                   "rank 0: a[0]F0 b[1]F0\nrank 1: b[0]F0 a[1]F0\n"));
  EXPECT_EQ(Print(pipes).find("REDUCE"), std::string::npos) << Print(pipes);
  EXPECT_TRUE(Check(pipes, &findings)) << findings.findings()[0].text;
}

}  // namespace
}  // namespace stringline
