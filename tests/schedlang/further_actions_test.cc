// R, D and U in schedules: their places and numbers, what is refused, and what a step takes.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan.h"
#include "schedlang/report/analysis.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/uses.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

constexpr const char* kOneForwardOneBackward =
    "schedule base(P, M) {\n"
    "  stages P on line;\n"
    "  rank r {\n"
    "    let warmup = min(P - 1 - r, M);\n"
    "    repeat warmup     { F r }\n"
    "    repeat M - warmup { F r; B r }\n"
    "    repeat warmup     { B r }\n"
    "  }\n"
    "}\n";

// The lists of the ranks, or the first line of the findings.
std::string ListsOf(const std::string& text, const std::string& parameters) {
  const std::string answer = Elaborated(text, ParametersOf(parameters));
  const size_t ranks = answer.find("rank 0:");
  return ranks == 0 || answer.rfind("plan ", 0) == 0 ? answer.substr(ranks)
                                                     : answer.substr(0, answer.find('\n'));
}

std::string InRank(const std::string& body, const std::string& more = "recompute all;") {
  return absl::StrCat("schedule s(P, M) { stages P on line; ", more, " rank r { ", body, " } }");
}

TEST(FurtherActions, TakeTheirMicrobatchesByCountersOfTheirOwn) {
  EXPECT_EQ(ListsOf(InRank("repeat M { F r } R r @ 1; R r; R r; repeat M { B r }"), "P=1 M=3"),
            "rank 0: 0F0 0F1 0F2 0R1 0R0 0R2 0B0 0B1 0B2\n");
  EXPECT_EQ(
      ListsOf(InRank("repeat M { F r } D r @ 2; D r; U r; B r; B r; U r; B r", ""), "P=1 M=3"),
      "rank 0: 0F0 0F1 0F2 0D2 0D0 0U2 0B0 0B1 0U0 0B2\n");
  // The letters are names, too.
  EXPECT_EQ(ListsOf("schedule s(P, M, R = 1, D = 0) { stages P on line; recompute all;"
                    " rank r { order U { F r } U; R r; D r; U r; B D * R; } }",
                    "P=1 M=1"),
            "rank 0: 0F0 0R0 0D0 0U0 0B0\n");
  EXPECT_EQ(ListsOf("schedule s(P, M) { stages P on line; rank r timetable {"
                    " at 0 : F r; at 1 : D r; at 3 : U r; at 7 : B r; } }",
                    "P=1 M=1"),
            "rank 0: 0F0 0D0 0U0 0B0\n");
}

// Orders may hold R, D, U and UPDATE; microbatches are counted when an action is performed.
TEST(FurtherActions, StandInOrders) {
  EXPECT_EQ(
      ListsOf("schedule s(P, M) { stages P on line; recompute all; rank r {"
              "  order forward { repeat M { F r; D r } }"
              "  order backward { repeat M as m { U r; R r; B r; if m == M - 1 { update r } } }"
              "  repeat M { forward; forward; } repeat M { backward; backward; backward }"
              "  backward; } }",
              "P=1 M=2"),
      ListsOf("schedule s(P, M) { stages P on line; recompute all; rank r {"
              "  repeat M { F r; D r } repeat M { U r; R r; B r } update r; } }",
              "P=1 M=2"));
}

TEST(FurtherActions, AreRefusedWhereTheyMeanNothing) {
  const auto first = [](const std::string& body, const std::string& more = "") {
    return ListsOf(InRank(body, more), "P=1 M=2");
  };
  EXPECT_EQ(
      first("F r; R r; B r"),
      "x.sched:1:53: error: stage 0 has no R, since it keeps everything; 'recompute s -> s == "
      "0;' in the schedule makes it keep only what entered it");
  EXPECT_EQ(first("F r; R r; R r @ 0; B r", "recompute all;"),
            "x.sched:1:72: error: 0R0 is done a second time");
  EXPECT_EQ(first("F r; U r; B r"),
            "x.sched:1:53: error: a U of stage 0, of which no D has left anything on the host");
  EXPECT_EQ(first("F r; D r; U r @ 1; B r"),
            "x.sched:1:58: error: 0U1 is not on the host: no D has copied it");
  EXPECT_EQ(first("F r & D r; U r; B r"),
            "x.sched:1:54: error: 'D' shares no group: a copy runs beside computations by itself");
  EXPECT_EQ(first("order o { F r; D r } o; o & F r; U r; B r"),
            "x.sched:1:72: error: the next action of order 'o' shares no group: D runs alone");
  EXPECT_EQ(first("order o { F r; unshard r; }"),
            "x.sched:1:63: error: 'unshard' stands only in a rank block");
  EXPECT_EQ(ListsOf("schedule s(P, M) { stages P on line; rank r greedy { prefer B, R, F; } }",
                    "P=1 M=1"),
            "x.sched:1:54: error: 'prefer' names R, and no stage recomputes: 'recompute all;' in "
            "the schedule");
  EXPECT_EQ(
      ListsOf("schedule s(P, M) { stages P on line; recompute all; rank r search { prefer F, "
              "B, R; } }",
              "P=1 M=1"),
      "x.sched:1:69: error: a search places no R: where a stage recomputes, its B or I begins "
      "with its F again");
  EXPECT_EQ(ListsOf(absl::StrCat(kOneForwardOneBackward,
                                 "schedule s(P, M) = base(P, M) then recompute by r - 1;"),
                    "P=2 M=2"),
            "x.sched:10:49: error: R and U cannot come 1 actions behind their B or I, with r = 0");
  EXPECT_EQ(ListsOf(absl::StrCat(kOneForwardOneBackward,
                                 "schedule a(P, M) = base(P, M) then recompute by 0;\n"
                                 "schedule s(P, M) = a(P, M) then recompute by 1;"),
                    "P=2 M=2"),
            "x.sched:11:46: error: 'a' places its R itself");
}

TEST(FurtherActions, ArePlacedByChangesOfASchedule) {
  EXPECT_EQ(ListsOf(absl::StrCat(kOneForwardOneBackward,
                                 "schedule s(P, M) = base(P, M) then recompute by 1;"),
                    "P=2 M=3"),
            "rank 0: 0F0 0R0 0F1 0B0 0R1 0F2 0R2 0B1 0B2\n"
            "rank 1: 1F0 1R0 1B0 1F1 1R1 1B1 1F2 1R2 1B2\n");
  EXPECT_EQ(ListsOf(absl::StrCat(kOneForwardOneBackward,
                                 "schedule s(P, M) = base(P, M) then offload by 1;"),
                    "P=4 M=4"),
            "rank 0: 0F0 0F1 0D0 0F2 0D1 0U0 0F3 0D2 0U1 0B0 0D3 0U2 0B1 0U3 0B2 0B3\n"
            "rank 1: 1F0 1F1 1F2 1D1 1B0 1D2 1U1 1F3 1U2 1B1 1B2 1B3\n"
            "rank 2: 2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3\n"
            "rank 3: 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3\n");
}

std::optional<Plan> PlanOfText(const std::string& text, int p, int m) {
  Diagnostics findings;
  Source source("x.sched", text);
  const auto file = ParseWithUses(&source, UsedFrom("schedules"), &findings);
  if (!file) return std::nullopt;
  auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &findings);
  EXPECT_TRUE(findings.empty()) << Render(findings, source);
  if (!plan) return std::nullopt;
  return Lower(*plan);
}

// The findings of the checker; "" for a right plan.
std::string FindingsOf(const std::string& plan_text) {
  Diagnostics findings;
  const Source source("x.plan", plan_text);
  const auto plan = ReadPlan(source, &findings);
  if (plan) Check(Lower(*plan), CheckOptions{}, &findings);
  return Render(findings, source);
}

// `tighten` moves actions to earlier slots, and none before what it needs.
TEST(FurtherActions, StayBehindTheirNeedsInATightenedTimetable) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int moved = 0;
  for (int i = 0; i < 300; ++i) {
    const int p = 1 + static_cast<int>(random() % 3), m = 1 + static_cast<int>(random() % 3);
    const int per = p + static_cast<int>(random() % 4);
    const bool remakes = random() % 3 > 0, copies = !remakes || random() % 2 > 0;
    const auto at = [&](const char* of_microbatch, int slot, char kind) {
      return absl::StrCat("at ", 2 * per, " * m + ", per, of_microbatch, " + ", slot, " : ",
                          std::string(1, kind), " v * P + r; ");
    };
    const int late = static_cast<int>(random() % 8);
    std::string body = at(" * v + r", 0, 'F');
    if (copies) {
      body += at(" * v + r", 1 + static_cast<int>(random() % 8), 'D');
      body += at(" * (1 - v) + P - r", 20 + late, 'U');
    }
    if (remakes) body += at(" * (1 - v) + P - r", 30 + late, 'R');
    body += at(" * (1 - v) + P - r", 40 + late, 'B');
    const auto text = [&](const char* rule) {
      return absl::StrCat("schedule s(P, M) { stages 2 * P on loop; ",
                          remakes ? "recompute all; " : "", "rank r timetable { ", rule,
                          "repeat M as m { repeat 2 as v { ", body, "} } } }");
    };
    const std::string parameters = absl::StrCat("P=", p, " M=", m);
    const std::string as_written = Elaborated(text(""), ParametersOf(parameters));
    if (as_written.rfind("plan ", 0) != 0 || !FindingsOf(as_written).empty()) continue;
    const std::string tightened = Elaborated(text("tighten; "), ParametersOf(parameters));
    moved += tightened != as_written ? 1 : 0;
    EXPECT_EQ(FindingsOf(tightened), "") << text("tighten; ") << "\n" << tightened;
  }
  EXPECT_GT(moved, 10);
}

int64_t StepNs(const Plan& plan, const std::string& costs) {
  const auto spec = ParseCosts(costs);
  EXPECT_TRUE(spec.ok()) << spec.status();
  const auto model = ResolveCosts(*spec, plan);
  EXPECT_TRUE(model.ok()) << model.status();
  const auto timeline = Simulate(plan, *model);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return MakespanOf(*timeline);
}

// 1F1B with R has 1F1B's bubble: a rank makes a microbatch again while it waits for its gradient.
// As the beginning of B it costs an F more on the way back.
TEST(FurtherActions, AnRBeforeItsGradientHidesInTheBubble) {
  for (int p = 2; p <= 6; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      for (const auto& [f, b] : {std::pair(10, 20), {7, 9}, {5, 30}}) {
        const std::string costs = absl::StrCat("F=", f, "ns,B=", b, "ns");
        const auto plan =
            PlanOfText(absl::StrCat(kOneForwardOneBackward,
                                    "schedule s(P, M) = base(P, M) then recompute by 0;"),
                       p, m);
        ASSERT_TRUE(plan);
        EXPECT_EQ(StepNs(*plan, costs), m * (2 * f + b) + (p - 1) * (f + b)) << p << " " << m;
        const auto inside = PlanOfText(absl::StrCat("schedule s(P, M) { recompute all;",
                                                    std::string(kOneForwardOneBackward).substr(23)),
                                       p, m);
        ASSERT_TRUE(inside);
        EXPECT_EQ(StepNs(*inside, costs), m * (2 * f + b) + (p - 1) * (2 * f + b)) << p << " " << m;
      }
    }
  }
}

// A copy as long as the action beside it costs nothing; a longer one holds up what follows it.
TEST(FurtherActions, CopiesRunBesideComputations) {
  const std::string text =
      "schedule s(P, M) { stages P on line; rank r { F r; F r; D r; F r; U r; F r; B r @ 1; B r; "
      "B r; B r } }";
  const auto plan = PlanOfText(text, 1, 4);
  ASSERT_TRUE(plan);
  EXPECT_EQ(StepNs(*plan, "F=10ns,B=20ns,D=10ns"), 120);
  EXPECT_EQ(StepNs(*plan, "F=10ns,B=20ns,D=13ns,U=10ns"), 123);
  // The U begins behind the third F, at 30, and is awaited by the B of microbatch 0, at 60.
  EXPECT_EQ(StepNs(*plan, "F=10ns,B=20ns,D=0ns,U=30ns"), 120);
  EXPECT_EQ(StepNs(*plan, "F=10ns,B=20ns,D=0ns,U=37ns"), 127);
  EXPECT_EQ(StepNs(*plan,
                   "F=10ns,B=20ns,memory.saved_for_I=600,memory.saved_for_W=400,"
                   "host.bandwidth=100GB/s"),
            120);
  EXPECT_EQ(StepNs(*plan,
                   "F=10ns,B=20ns,memory.saved_for_I=600,memory.saved_for_W=900,"
                   "host.bandwidth=100GB/s"),
            125);
  EXPECT_EQ(
      StepNs(*plan, "F=10ns,B=20ns,memory.saved_for_W=1500,host.bandwidth=100GB/s,host.sharing=8"),
      125);  // the rank is alone
  const auto none = ResolveCosts(*ParseCosts("F=10,B=20"), *plan);
  EXPECT_EQ(none.status().message(),
            "the schedule performs 0D0, but there is no cost for D: give D, or host.bandwidth and "
            "what a microbatch holds (memory.saved_for_I, memory.saved_for_W)");
}

// Seven ranks share links three by three; the last rank has a link alone.
TEST(FurtherActions, RanksShareTheLinkToTheirHost) {
  const auto plan = PlanOfText(
      "schedule s(P, M) { stages P on line; rank r { repeat M { F r; D r; U r; B r } } }", 7, 2);
  ASSERT_TRUE(plan);
  const auto of = [&](const std::string& more) {
    return ResolveCosts(*ParseCosts("F=10,B=20,memory.saved_for_W=[1,2,3,4,5,6,7]" + more), *plan);
  };
  const auto alone = of(",host.bandwidth=1GB/s"),
             shared = of(",host.bandwidth=1GB/s,host.sharing=3");
  ASSERT_TRUE(alone.ok() && shared.ok());
  EXPECT_EQ(alone->offload, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(shared->offload, (std::vector<int64_t>{3, 6, 9, 12, 15, 18, 7}));
  EXPECT_EQ(shared->fetch, shared->offload);
  EXPECT_EQ(of(",host.sharing=3").status().message(),
            "host.sharing: needs the bandwidth that is shared ('host.bandwidth=25GB/s')");
  EXPECT_EQ(of(",host.bandwidth=1GB/s,host.sharing=0").status().message(),
            "host.sharing: at least 1");
}

}  // namespace
}  // namespace stringline
