// Plans of several steps: their text, the updates that a schedule writes or gets, the rule
// `updates`, and what a step takes.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/costs/costs.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/report/period.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

constexpr const char* kGpipe =
    "schedule s(P, M) { stages P on line; rank r { repeat M { F r } repeat M { B r } } }";

// The plan's text behind its first line, or the first line of the findings.
std::string PlanOf(const std::string& text, const std::string& parameters) {
  const std::string answer = Elaborated(text, ParametersOf(parameters));
  const size_t line = answer.find('\n');
  return answer.rfind("plan ", 0) == 0 ? answer.substr(line + 1) : answer.substr(0, line);
}

std::string FirstFinding(const Plan& plan, const CheckOptions& options = {}) {
  Diagnostics findings;
  Check(plan.lowered ? plan : Lower(plan), options, &findings);
  return findings.empty() ? "" : findings.findings()[0].text;
}

TEST(Steps, ASchedulesOrderIsPerformedAgain) {
  EXPECT_EQ(PlanOf(kGpipe, "P=1 M=2 steps=2"),
            "steps 2 versions 1\nstages 0\n"
            "rank 0: 0F0 0F1 0B0 0B1 0UPDATE0 0F2 0F3 0B2 0B3 0UPDATE1\n");
  EXPECT_EQ(PlanOf(kGpipe, "P=1 M=1 steps=1"), "stages 0\nrank 0: 0F0 0B0\n");
  // In the order in which the next step needs them.
  EXPECT_EQ(PlanOf("schedule s(P, M) { stages 2 on v; rank r { F 0; F 1; B 1; B 0; } }",
                   "P=1 M=1 steps=2"),
            "steps 2 versions 1\nstages 0 0\nrank 0: 0F0 1F0 1B0 0B0 0UPDATE0 1UPDATE0 "
            "0F1 1F1 1B1 0B1 0UPDATE1 1UPDATE1\n");
  // Written updates stay where they are.
  EXPECT_EQ(PlanOf("schedule s(P, M) { stages 2 on v; rank r { F 0; F 1; B 1; update 1; B 0; "
                   "update 0; } }",
                   "P=1 M=1 steps=2"),
            "steps 2 versions 1\nstages 0 0\nrank 0: 0F0 1F0 1B0 1UPDATE0 0B0 0UPDATE0 "
            "0F1 1F1 1B1 1UPDATE1 0B1 0UPDATE1\n");
  EXPECT_EQ(PlanOf("schedule s(P, M) { pipe a { stages P on line; microbatches 1 }"
                   " pipe b { stages P on reversed line; microbatches 1 }"
                   " rank r { F a[r]; F b[P - 1 - r]; B b[P - 1 - r]; B a[r]; } }",
                   "P=1 M=2 steps=2"),
            "steps 2 versions 1\npipe a M=1 stages 0\npipe b M=1 stages 0\n"
            "rank 0: a[0]F0 b[0]F0 b[0]B0 a[0]B0 a[0]UPDATE0 b[0]UPDATE0 "
            "a[0]F1 b[0]F1 b[0]B1 a[0]B1 a[0]UPDATE1 b[0]UPDATE1\n");
}

TEST(Steps, AreWhatTheScheduleSays) {
  const std::string own =
      "schedule s(P, M, steps = 2) { stages P on line; steps steps; versions 2;"
      " rank r { repeat M * steps as m { F r; B r; if (m + 1) % M == 0 { update r } } } }";
  EXPECT_EQ(PlanOf(own, "P=1 M=1"),
            "steps 2 versions 2\nstages 0\nrank 0: 0F0 0B0 0UPDATE0 0F1 0B1 0UPDATE1\n");
  EXPECT_EQ(PlanOf(own, "P=1 M=1 steps=1"),
            "steps 1 versions 2\nstages 0\nrank 0: 0F0 0B0 "
            "0UPDATE0\n");
  const std::string fixed =
      "schedule s(P, M) { stages P on line; steps 2; rank r { F r; B r; update r; F r; B r; "
      "update r; } }";
  EXPECT_NE(PlanOf(fixed, "P=1 M=1 steps=3").find("'s' says itself that it has 2 steps"),
            std::string::npos);
  EXPECT_NE(PlanOf(kGpipe, "P=1 M=1 steps=0").find("not in 1 .. 10000"), std::string::npos);
  // The words are names, too.
  EXPECT_EQ(PlanOf("schedule s(P, M, versions = 1) { stages P on line; let update = 0;"
                   " rank r { order steps { F update } steps; B update * versions; } }",
                   "P=1 M=1"),
            "stages 0\nrank 0: 0F0 0B0\n");
}

TEST(Steps, AreRefusedWhereTheyMeanNothing) {
  const std::pair<const char*, const char*> rows[] = {
      {"schedule s(P, M) { stages P on line; steps 0; rank r { F r; B r } }",
       "a plan has 1 to 10000 steps, not 0"},
      {"schedule s(P, M) { stages P on line; versions 65; rank r { F r; B r } }",
       "a stage holds 1 to 64 versions of its weights, not 65"},
      {"schedule s(P, M) { stages P on line; steps 2; steps 2; rank r { F r; B r } }", "steps"},
      {"schedule s(P, M) { stages P on line; steps 2; rank r greedy { prefer B, F } }",
       "whose rank block lists actions in order"},
      {"schedule s(P, M) { stages P on line; steps 2; pad microbatches to 4; rank r { F r } }",
       "'pad' cannot stand beside 'steps'"},
      {"schedule s(P, M) { stages P on line; rank r { F r; B r; update r; update r } }",
       "0UPDATE1 is past the last step, 0UPDATE0"},
      {"schedule s(P, M) { stages P on line; rank r timetable { at 0 : F r; at 1 : B r; "
       "update r } }",
       "'update'"},
      {"schedule s(P, M) { stages P on line; rank r timetable { at 0 : F r; at 1 : reduce r } }",
       "'reduce' stands in the order of a rank, not at a slot"},
      {"schedule s(P, M) { stages P on line; rank r { update r + 1 } }", "stage 1 does not exist"},
      {"schedule s(P, M) { stages P on line; rank r { F r & update r } }", ""},
  };
  for (const auto& [text, says] : rows) {
    const std::string answer = PlanOf(text, "P=1 M=1");
    EXPECT_NE(answer.find("error"), std::string::npos) << text << "\n" << answer;
    EXPECT_NE(answer.find(says), std::string::npos) << text << "\n" << answer;
  }
}

TEST(Steps, PlansReadBack) {
  const std::string header = "plan x P=1 M=1\n";
  const std::pair<const char*, const char*> rows[] = {
      {"steps 2\nstages 0\nrank 0: 0F0 0B0 0UPDATE0\n", "expected 'steps N versions K'"},
      {"steps 0 versions 1\nstages 0\nrank 0: 0F0 0B0\n", "expected 'steps N versions K'"},
      {"steps 2 versions 1\nstages 0\nrank 0: 0F0 0B0 0UPDATE2\n", "there are only 2 steps"},
      {"steps 2 versions 1\nstages 0\nrank 0: 0F2 0B0\n", "there are only 2 microbatches"},
      {"steps 2 versions 1\nstages 0\nrank 0: 0F0&0UPDATE0 0B0\n", "cannot be part of a group"},
  };
  for (const auto& [text, says] : rows) {
    Diagnostics findings;
    const Source source("x.plan", header + text);
    EXPECT_FALSE(ReadPlan(source, &findings));
    ASSERT_FALSE(findings.empty()) << text;
    EXPECT_NE(findings.findings()[0].text.find(says), std::string::npos)
        << findings.findings()[0].text;
  }
  std::mt19937_64 random(20261126);
  for (int n = 0; n < 200; ++n) {
    Plan plan = RepeatSteps(RandomRightPlan(random, 6, 4), 1 + static_cast<int>(random() % 3));
    plan.versions = 1 + static_cast<int>(random() % 2);
    const std::string text = Print(plan);
    Diagnostics findings;
    const Source source("x.plan", text);
    const auto again = ReadPlan(source, &findings);
    ASSERT_TRUE(again.has_value()) << text;
    EXPECT_EQ(Print(*again), text);
    EXPECT_EQ(again->microbatches, plan.microbatches);
  }
}

TEST(Steps, WeightsAreAsNewAsTheyHaveToBe) {
  const auto says = [](const std::string& versions, const std::string& list) {
    return FirstFinding(PlanFromText(absl::StrCat("plan x P=1 M=1\nsteps 3 versions ", versions,
                                                  "\nstages 0\nrank 0: ", list, "\n")));
  };
  const std::string flushed = "0F0 0B0 0UPDATE0 0F1 0B1 0UPDATE1 0F2 0B2 0UPDATE2";
  const std::string ahead = "0F0 0F1 0B0 0UPDATE0 0F2 0B1 0UPDATE1 0B2 0UPDATE2";
  EXPECT_EQ(says("1", flushed), "");
  EXPECT_EQ(says("2", flushed), "");
  EXPECT_EQ(says("2", ahead), "");
  EXPECT_EQ(says("1", ahead), "0F1 of step 1 needs weights behind 0UPDATE0");
  EXPECT_EQ(says("2", "0F0 0F1 0F2 0B0 0UPDATE0 0B1 0UPDATE1 0B2 0UPDATE2"),
            "0F2 of step 2 needs weights behind 0UPDATE0; with 2 versions they are at most 1 "
            "update old");
  EXPECT_EQ(says("3", "0F0 0F1 0F2 0B0 0B1 0UPDATE0 0UPDATE1 0B2 0UPDATE2"),
            "0B1 adds to the gradients of step 1 before 0UPDATE0 has used those of step 0");
  EXPECT_EQ(says("1", "0F0 0B0 0UPDATE0 0F1 0B1 0UPDATE1 0F2 0B2"),
            "stage 0 has no UPDATE of step 2");
  EXPECT_EQ(says("1", "0F0 0UPDATE0 0B0 0F1 0B1 0UPDATE1 0F2 0B2 0UPDATE2"),
            "0UPDATE0 comes before 1 of the 1 weight gradients of step 0 of its stage");
  EXPECT_EQ(says("2", "0F0 0B0 0UPDATE1 0F1 0B1 0UPDATE0 0F2 0B2 0UPDATE2"),
            "0UPDATE1 comes before 0UPDATE0");
}

// The first backward of 1F1B's rank 0 waits for a trip through the whole pipeline, in every step:
// other ranks end before it, and have their updates done when its next forward comes.
TEST(Steps, OneForwardOneBackwardFlushesInEveryStep) {
  const std::string text = ReadTestFile("schedules/1f1b.sched");
  for (const int p : {1, 2, 4}) {
    for (const int m : {4, 8}) {
      const std::string parameters = absl::StrCat("P=", p, " M=", m, " steps=5");
      const Plan plan = Lower(PlanFromText(Elaborated(text, ParametersOf(parameters))));
      const CostModel costs = *ResolveCosts(*ParseCosts("F=10,B=20,UPDATE=3"), plan);
      const Timeline timeline = *Simulate(plan, costs);
      EXPECT_EQ(FirstFinding(plan), "");
      const auto steady = SteadyStepsOf(plan, timeline);
      ASSERT_TRUE(steady.has_value());
      EXPECT_EQ(steady->period_ns, 1000 * (30 * (m + p - 1) + 3)) << p << " " << m;
    }
  }
}

// ZB-V's ranks end in the order in which the next step needs them, and PipeDream-2BW's never stop:
// behind the first step no rank idles.
TEST(Steps, SomeSchedulesHaveNoBubbleBehindTheFirst) {
  const std::pair<const char*, int64_t> rows[] = {{"zb_v", 60}, {"pipedream_2bw", 30}};
  for (const auto& [name, of_microbatch] : rows) {
    const std::string text = ReadTestFile(absl::StrCat("schedules/", name, ".sched"));
    for (const int p : {2, 4, 8}) {
      const int m = 3 * p;
      const std::string parameters = absl::StrCat("P=", p, " M=", m, " steps=4");
      const Plan plan = Lower(PlanFromText(Elaborated(text, ParametersOf(parameters))));
      EXPECT_EQ(FirstFinding(plan), "");
      const CostModel costs = *ResolveCosts(*ParseCosts("F=10,I=10,W=10"), plan);
      const auto steady = SteadyStepsOf(plan, *Simulate(plan, costs));
      ASSERT_TRUE(steady.has_value());
      EXPECT_EQ(steady->period_ns, 1000 * of_microbatch * m) << name << " " << p;
      EXPECT_EQ(steady->bubble, 0) << name << " " << p;
    }
  }
}

// PipeDream's ranks never wait behind the first microbatches, however few a step has, and with a
// version less than it holds they would have to.
TEST(Steps, PipeDreamHoldsTheVersionsThatItNeeds) {
  const std::string text = ReadTestFile("schedules/pipedream.sched");
  std::string fewer = text;
  const std::string versions = "versions behind + 1;";
  fewer.replace(fewer.find(versions), versions.size(), "versions max(1, behind);");
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 3, p, 2 * p}) {
      const std::string parameters = absl::StrCat("P=", p, " M=", m, " steps=", 4 * p);
      const Plan plan = Lower(PlanFromText(Elaborated(text, ParametersOf(parameters))));
      EXPECT_EQ(FirstFinding(plan), "") << parameters;
      EXPECT_EQ(plan.versions, 1 + (p - 1) / m + ((p - 1) % m > 0 ? 1 : 0)) << parameters;
      const CostModel costs = *ResolveCosts(*ParseCosts("F=10,B=20,UPDATE=0"), plan);
      const Timeline timeline = *Simulate(plan, costs);
      EXPECT_EQ(MakespanOf(timeline), 30'000 * (4 * p * m + p - 1)) << parameters;
      if (p == 1) continue;
      const Plan short_of_one = PlanFromText(Elaborated(fewer, ParametersOf(parameters)));
      EXPECT_NE(FirstFinding(short_of_one).find("needs weights behind"), std::string::npos)
          << parameters;
    }
  }
}

// A timetable has the UPDATE of a stage in a slot of its own, also where its actions are tightened
// and W's are filled in.
TEST(Steps, TimetablesHaveUpdates) {
  const auto text = [](const char* more, int slot) {
    return absl::StrCat(
        "schedule s(P, M) { stages P on line; rank r timetable { repeat M as m { at 4 * m : F r; "
        "at 4 * m + 2 : I r; } fill W; ",
        more, " at ", slot, " : update r; } }");
  };
  EXPECT_EQ(PlanOf(text("", 30), "P=1 M=2"),
            "stages 0\nrank 0: 0F0 0I0 0W0 0F1 0I1 0W1 0UPDATE0\n");
  EXPECT_EQ(
      PlanOf(text("tighten;", 30), "P=1 M=2 steps=2"),
      "steps 2 versions 1\nstages 0\nrank 0: 0F0 0I0 0W0 0F1 0I1 0W1 0UPDATE0 0F2 0I2 0W2 0F3 "
      "0I3 0W3 0UPDATE1\n");
  // In front of the last W.
  const Plan early = PlanFromText(Elaborated(text("", 7), {{"P", 1}, {"M", 2}}));
  EXPECT_EQ(FirstFinding(early),
            "0UPDATE0 comes before 1 of the 2 weight gradients of step 0 of its stage");
}

// Every step of data-parallel copies reduces its gradients, and every update waits for its sum.
TEST(Steps, UpdatesWaitForTheSumsOfTheirGradients) {
  Plan plan = RepeatSteps(PlanFromText("plan x P=1 M=2\nstages 0\nrank 0: 0F0 0F1 0B0 0B1\n"), 2);
  plan = AddCollectives(plan, {.gathers = true, .reduces = true});
  EXPECT_EQ(Print(plan),
            "plan x P=1 M=2\nsteps 2 versions 1\nstages 0\n"
            "rank 0: 0UNSHARD 0F0 0F1 0B0 0B1 0REDUCE_GRAD 0RESHARD 0UPDATE0 "
            "0UNSHARD 0F2 0F3 0B2 0B3 0REDUCE_GRAD 0RESHARD 0UPDATE1\n");
  EXPECT_EQ(FirstFinding(plan, {.sharded = true}), "");
  const Plan lowered = Lower(plan);
  const CostModel costs =
      *ResolveCosts(*ParseCosts("F=10,B=20,UPDATE=3,unshard=5,reduce=7"), lowered);
  // Gather, four computations, sum, update; then the same, with a gather behind the update.
  EXPECT_EQ(MakespanOf(*Simulate(lowered, costs)), 1000 * 2 * (5 + 60 + 7 + 3));
  // A plan that goes on with what it gathered before the update.
  const Plan old = PlanFromText(
      "plan x P=1 M=1\nsteps 2 versions 1\nstages 0\nrank 0: 0UNSHARD 0F0 0B0 0REDUCE_GRAD "
      "0UPDATE0 0F1 0B1 0REDUCE_GRAD 0UPDATE1 0RESHARD\n");
  EXPECT_EQ(FirstFinding(old), "0F1 finds parameters gathered before 0UPDATE0");
  const Plan unsummed = PlanFromText(
      "plan x P=1 M=1\nsteps 2 versions 1\nstages 0\nrank 0: 0F0 0B0 0UPDATE0 0REDUCE_GRAD 0F1 0B1 "
      "0REDUCE_GRAD 0UPDATE1\n");
  EXPECT_EQ(FirstFinding(unsummed), "0UPDATE0 comes before the gradients of its stage are reduced");
}

// A rank sums the gradients of its replicas with the last of their REDUCE_GRADs: the updates of all
// of them stand, and wait, behind it.
TEST(Steps, UpdatesWaitForTheSumsOfReplicasOnTheirRank) {
  const std::string begin =
      "plan x P=1 M=2\npipe a M=1 stages 0\npipe b M=1 stages 0\nrank 0: a[0]F0 b[0]F0 a[0]B0 "
      "a[0]REDUCE_GRAD ";
  const Plan early = PlanFromText(begin + "a[0]UPDATE0 b[0]B0 b[0]REDUCE_GRAD b[0]UPDATE0\n");
  EXPECT_EQ(FirstFinding(early),
            "a[0]UPDATE0 comes before b[0]REDUCE_GRAD, with which the rank sums the gradients of "
            "both replicas");
  const Plan late = Lower(PlanFromText(begin + "b[0]B0 b[0]REDUCE_GRAD a[0]UPDATE0 b[0]UPDATE0\n"));
  EXPECT_EQ(FirstFinding(late), "");
  const CostModel costs = *ResolveCosts(*ParseCosts("F=10,B=20,UPDATE=3,reduce=7"), late);
  EXPECT_EQ(MakespanOf(*Simulate(late, costs)), 1000 * (60 + 7 + 3 + 3));
}

}  // namespace
}  // namespace stringline
