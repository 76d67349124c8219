// A schedule's own values and actions: what a file may say, what is refused and in which words, the
// text form, the rules, times and memory.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/torch/torch_csv.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

// 1F1B with `rows` in front, and `steady` behind each forward.
std::string WithRows(const std::string& rows, const std::string& steady) {
  return absl::StrCat("schedule s(P, M) { stages P on line; ", rows, " rank r { repeat M { F r; ",
                      steady, " B r } } }");
}

// The plan's text, or the first line of the findings.
std::string PlanOrFinding(const std::string& text, const std::string& parameters) {
  const std::string answer = Elaborated(text, ParametersOf(parameters));
  return answer.rfind("plan ", 0) == 0 ? answer : answer.substr(0, answer.find('\n'));
}

std::optional<Plan> PlanOf(const std::string& text) {
  const Source source("x.plan", text);
  Diagnostics diagnostics;
  std::optional<Plan> plan = ReadPlan(source, &diagnostics);
  EXPECT_TRUE(plan.has_value()) << text;
  return plan;
}

// "" if the plan is right, or the texts of its findings.
std::string Findings(const Plan& plan) {
  Diagnostics diagnostics;
  if (Check(plan.lowered ? plan : Lower(plan), &diagnostics)) return "";
  std::string out;
  for (const Diagnostic& finding : diagnostics.findings())
    absl::StrAppend(&out, finding.text, "\n");
  return out;
}

constexpr const char* kLoss =
    "value x of s on each rank; value part of s on each rank;"
    " action C s on network with all ranks { needs output s; gives x s; }"
    " action S s by each rank { frees x s; gives part s; }"
    " action G s on network with all ranks { frees part s; gives out_grad s; }";

TEST(OwnActions, StandInThePlansText) {
  const std::string text = PlanOrFinding(WithRows(kLoss, "C P - 1; S P - 1; G P - 1;"), "P=2 M=2");
  EXPECT_EQ(text,
            "plan s P=2 M=2\n"
            "value x on each rank\n"
            "value part on each rank\n"
            "action C network by all needs output gives x\n"
            "action S compute by each gives part frees x\n"
            "action G network by all gives out_grad frees part\n"
            "stages 0 1\n"
            "rank 0: 0F0 1C0 1S0 1G0 0B0 0F1 1C1 1S1 1G1 0B1\n"
            "rank 1: 1F0 1C0 1S0 1G0 1B0 1F1 1C1 1S1 1G1 1B1\n");
  const std::optional<Plan> plan = PlanOf(text);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(Print(*plan), text);
  EXPECT_EQ(Findings(*plan), "");
  EXPECT_EQ(Print(*PlanOf(Print(Lower(*plan)))), Print(Lower(*plan)));
}

TEST(OwnActions, LiveOnHostsAndOtherRanks) {
  const std::string rows =
      "value host of s on host; value lent of s on rank P - 1 - s; value v of s;"
      " action OUT s on copy_out { frees saved s; gives host s, lent s; }"
      " action BACK s on copy_in { frees host s, lent s; gives saved s; }"
      " action A s { needs output s; gives v s; } action Z s { frees v s; }";
  const std::string text = PlanOrFinding(WithRows(rows, "OUT r; A r; BACK r @ i; Z r;"), "P=2 M=1");
  EXPECT_EQ(text.substr(0, 20), "x.sched:1:358: error") << text;  // i is no name here
  const std::string good = PlanOrFinding(WithRows(rows, "OUT r; A r; BACK r; Z r;"), "P=2 M=1");
  EXPECT_EQ(good,
            "plan s P=2 M=1\n"
            "value host on host\n"
            "value lent on ranks 1 0\n"
            "value v\n"
            "action OUT copy_out gives host,lent frees saved\n"
            "action BACK copy_in gives saved frees host,lent\n"
            "action A compute needs output gives v\n"
            "action Z compute frees v\n"
            "stages 0 1\n"
            "rank 0: 0F0 0OUT0 0A0 0BACK0 0Z0 0B0\n"
            "rank 1: 1F0 1OUT0 1A0 1BACK0 1Z0 1B0\n");
  EXPECT_EQ(Findings(*PlanOf(good)), "");
}

TEST(OwnActions, AreRefusedWhereTheyMeanNothing) {
  const auto first = [](const std::string& rows, const std::string& steady) {
    const std::string answer = PlanOrFinding(WithRows(rows, steady), "P=1 M=1");
    const size_t text = answer.find("error: ");
    return text == std::string::npos ? answer : answer.substr(text + 7);
  };
  EXPECT_EQ(first("action F s { }", ""),
            "'F' is no name for an action: capital letters, at most 24, and none of the built-in "
            "ones");
  EXPECT_EQ(first("action D s { needs saved s; }", ""),
            "'D' is no name for an action: capital letters, at most 24, and none of the built-in "
            "ones");
  EXPECT_EQ(first("action Go s { needs saved s; }", ""),
            "'Go' is no name for an action: capital letters, at most 24, and none of the built-in "
            "ones");
  EXPECT_EQ(first("action A s { needs score s; }", ""),
            "there is no value 'score'; there are saved, stash, output, input, out_grad and "
            "in_grad, and those of a 'value' above");
  EXPECT_EQ(first("value v of s; action A s { needs v t; }", ""),
            "the values of an action are those of its stage: 'v s'");
  EXPECT_EQ(first("value v of s; value v of s;", ""),
            "'v' is a value already; built in are saved, stash, output, input, out_grad and "
            "in_grad");
  EXPECT_EQ(first("action A s { gives output s; }", ""),
            "an own action gives no 'output': of the built-in values only saved, stash, input and "
            "out_grad");
  EXPECT_EQ(first("action A s { frees output s; }", ""),
            "an own action frees no 'output': of the built-in values only saved and stash");
  EXPECT_EQ(first("value v of s; action A s { needs v s, v s; }", ""), "'v' is named twice");
  EXPECT_EQ(first("action A s on disk { needs saved s; }", ""),
            "'disk' is no lane: compute, network, copy_out or copy_in");
  EXPECT_EQ(first("action A s on copy_in with all ranks { needs saved s; }", ""),
            "all ranks begin together on compute or network; a copy is of one rank");
  EXPECT_EQ(first("value x of s on each rank; action A s { gives x s; }", ""),
            "'A' is done by the stage's rank, and a value on each rank is given and freed by all: "
            "'by each rank' or 'with all ranks'");
  EXPECT_EQ(first("action A s { needs saved s; } action A s { needs saved s; }", ""),
            "there is an action 'A' already");
  EXPECT_EQ(first("value v of s on rank P;", ""),
            "rank 1 does not exist: the ranks are 0 .. 0, with P = 1");
  EXPECT_EQ(first("", "Q r;"), "'Q' begins no statement; the actions are F, B, I, W, R, D and U");
  EXPECT_EQ(first("action A s { needs saved s; }", "A r; A r;"),
            "0A1 is past the last microbatch, 0A0");
  EXPECT_EQ(first("action A s { needs saved s; }", "A r & F r;"),
            "'A' shares no group: an own action runs alone");
  EXPECT_EQ(PlanOrFinding("schedule s(P, M) { stages P on line; action A s { needs saved s; }"
                          " rank r { order o { F r; A r } order p { B r } o; p & o; } }",
                          "P=1 M=1"),
            "x.sched:1:121: error: the next action of order 'o' shares no group: A runs alone");
  EXPECT_NE(PlanOrFinding("schedule s(P, M) { stages P on line; action A s { needs saved s; }"
                          " rank r { order o { repeat M { F r; A r } } repeat M { o; o; B r } } }",
                          "P=1 M=2")
                .find("\nrank 0: 0F0 0A0 0B0 0F1 0A1 0B1\n"),
            std::string::npos);
  EXPECT_EQ(PlanOrFinding("schedule s(P, M) { stages P on line; action A s { needs saved s; }"
                          " rank r greedy { prefer B, F; } }",
                          "P=1 M=1"),
            "x.sched:1:45: error: own actions stand in a rank block that lists actions, or in a "
            "timetable; this schedule's block puts them in order by itself");
  EXPECT_EQ(PlanOrFinding("schedule s(P, M) { stages P on line; action A s { needs saved s; }"
                          " rank r timetable { at 0 : F r; at 2 : A r; at 5 : B r; tighten; } }",
                          "P=1 M=1"),
            "x.sched:1:123: error: 'tighten' moves no own actions, and this schedule has some: "
            "leave it out");
  EXPECT_EQ(PlanOrFinding("schedule s(P, M) { stages P on line; action A s { needs saved s; }"
                          " rank r timetable { at 0 : F r; at 2 : A r; at 5 : B r; } }",
                          "P=1 M=1"),
            "plan s P=1 M=1\naction A compute needs saved\nstages 0\nrank 0: 0F0 0A0 0B0\n");
  // The words are names elsewhere.
  EXPECT_EQ(PlanOrFinding("schedule s(P, M, value = 1, action = 0) { stages P on line; rank r {"
                          " order host { F r } host; B r @ action * value; } }",
                          "P=1 M=1"),
            "plan s P=1 M=1 value=1 action=0\nstages 0\nrank 0: 0F0 0B0\n");
  std::string seven;
  for (const char c : {'A', 'C', 'E', 'G', 'H', 'J', 'K'}) {
    absl::StrAppend(&seven, "action ", std::string(1, c), " s { needs saved s; } ");
  }
  EXPECT_EQ(first(seven, ""), "a schedule has at most 6 actions of its own on compute");
}

constexpr const char* kHead =
    "plan s P=2 M=1\n"
    "value v\n"
    "value x on each rank\n"
    "action A compute gives v\n"
    "action Z compute frees v\n"
    "action C network by all needs output gives x\n"
    "action K compute by all needs x\n"
    "action L compute by each frees x\n"
    "stages 0 1\n";

std::string FindingsOf(const std::string& first, const std::string& second) {
  return Findings(*PlanOf(absl::StrCat(kHead, "rank 0: ", first, "\nrank 1: ", second, "\n")));
}

TEST(OwnActions, FollowTheRules) {
  EXPECT_EQ(FindingsOf("0F0 1C0 1K0 1L0 0B0", "1F0 1C0 1K0 1L0 1B0"), "");
  EXPECT_EQ(FindingsOf("0F0 0A0 0B0 0Z0", "1F0 1A0 1Z0 1B0"), "");
  EXPECT_EQ(FindingsOf("0F0 0Z0 0A0 0B0", "1F0 1B0"),
            "rank 0 waits forever at 0Z0 for the 'v' of stage 0, microbatch 0\n");
  EXPECT_EQ(FindingsOf("0F0 0A0 0B0", "1F0 1B0"),
            "rank 0: 0A0 gives the 'v' of stage 0, microbatch 0, which is left over: nothing "
            "behind it frees it\n");
  EXPECT_EQ(FindingsOf("0F0 0A0 0A0 0Z0 0B0", "1F0 1B0"), "rank 0: 0A0 is done a second time\n");
  EXPECT_EQ(FindingsOf("0F0 1C0 1K0 1L0 0B0", "1F0 1C0 1L0 1B0"),
            "rank 0: 1K0 is for every rank, and rank 1 has none\n");
  // Rank 0 comes to the meeting behind its backward, which needs that of rank 1.
  EXPECT_EQ(FindingsOf("0F0 1C0 0B0 1K0 1L0", "1F0 1C0 1K0 1B0 1L0"),
            "rank 0 waits forever at 0B0: it needs the gradient of stage 1, microbatch 0\n");
  // An action on the network waits for what its rank lists before it.
  EXPECT_EQ(FindingsOf("0F0 0B0 1C0 1K0 1L0", "1F0 1C0 1K0 1L0 1B0"),
            "rank 0 waits forever at 0B0: it needs the gradient of stage 1, microbatch 0\n");
  // F's result ends with the backward.
  EXPECT_EQ(FindingsOf("0F0 1C0 1K0 1L0 0B0", "1F0 1B0 1C0 1K0 1L0"),
            "rank 1 waits forever at 1C0 for the activation of stage 1, microbatch 0\n");
}

TEST(OwnActions, GiveTheLossItsGradient) {
  const std::string text =
      PlanOrFinding(WithRows(kLoss, "if r == P - 1 { } C P - 1; S P - 1;"), "P=2 M=1");
  EXPECT_EQ(Findings(*PlanOf(text)),
            "rank 1 waits forever at 1B0 for the loss of stage 1, microbatch 0\n");
  // Only the last stage's comes from an own action.
  const std::string early = PlanOrFinding(
      "schedule s(P, M) { stages P on line; action A s { needs output s; gives out_grad s; }"
      " rank r { F r; A r; B r; } }",
      "P=2 M=1");
  EXPECT_EQ(Findings(*PlanOf(early)),
            "rank 0: 0A0 gives out_grad of stage 0, which stage 1 gives\n");
}

CostModel CostsOf(const Plan& plan, const std::string& text) {
  const auto costs = ResolveCosts(*ParseCosts(text), plan);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return *costs;
}

std::string TimesOf(const std::string& first, const std::string& second, const std::string& costs) {
  const Plan plan =
      Lower(*PlanOf(absl::StrCat(kHead, "rank 0: ", first, "\nrank 1: ", second, "\n")));
  const auto timeline = Simulate(plan, CostsOf(plan, costs));
  if (!timeline.ok()) return std::string(timeline.status().message());
  const std::string text = Print(*timeline);
  std::string out = text.substr(text.find("rank 0:"));
  return out;
}

// By hand, in nanoseconds.
TEST(OwnActions, TakeTheirTime) {
  // C begins when F of stage 1 has ended, at 20, and runs beside nothing; K when both ranks have x.
  EXPECT_EQ(TimesOf("0F0 1C0 1K0 1L0 0B0", "1F0 1C0 1K0 1L0 1B0",
                    "F=10ns,B=20ns,A=1ns,Z=1ns,C=5ns,K=3ns,L=[1ns,2ns]"),
            "rank 0: 0F0@0+10 0SEND_F0@10+0 1C0@20+5 1K0@25+3 1L0@28+2 0RECV_B0@50+0 0B0@50+20\n"
            "rank 1: 1RECV_F0@10+0 1F0@10+10 1C0@20+5 1K0@25+3 1L0@28+2 1B0@30+20 1SEND_B0@50+0\n");
  // Beside C, rank 0 computes.
  EXPECT_EQ(TimesOf("0F0 1C0 0A0 1K0 1L0 0Z0 0B0", "1F0 1C0 1K0 1L0 1B0",
                    "F=10ns,B=20ns,A=40ns,Z=1ns,C=5ns,K=3ns,L=0"),
            "rank 0: 0F0@0+10 0SEND_F0@10+0 1C0@20+5 0A0@10+40 1K0@50+3 1L0@53+0 0Z0@53+1 "
            "0RECV_B0@73+0 0B0@73+20\n"
            "rank 1: 1RECV_F0@10+0 1F0@10+10 1C0@20+5 1K0@50+3 1L0@53+0 1B0@53+20 1SEND_B0@73+0\n");
  // A value lives until its readers on other lanes have ended.
  const Plan read = Lower(
      *PlanOf("plan s P=1 M=1\naction N network needs saved\nstages 0\nrank 0: 0F0 0N0 0B0\n"));
  const std::string times = Print(*Simulate(read, CostsOf(read, "F=10ns,B=20ns,N=50ns")));
  EXPECT_EQ(times.substr(times.find("rank 0:")), "rank 0: 0F0@0+10 0N0@10+50 0B0@60+20\n");
  // Without costs an own action takes as long as an F, and no time on the network.
  EXPECT_EQ(TimesOf("0F0 0A0 0Z0 0B0", "1F0 1B0", "p2p=0"),
            "rank 0: 0F0@0+1000000 0SEND_F0@1000000+0 0A0@1000000+1000000 0Z0@2000000+1000000 "
            "0RECV_B0@4000000+0 0B0@4000000+2000000\n"
            "rank 1: 1RECV_F0@1000000+0 1F0@1000000+1000000 1B0@2000000+2000000 "
            "1SEND_B0@4000000+0\n");
}

TEST(OwnActions, NeedTheirCosts) {
  const Plan plan =
      Lower(*PlanOf(absl::StrCat(kHead, "rank 0: 0F0 0A0 0Z0 0B0\n", "rank 1: 1F0 1B0\n")));
  const auto message = [&](const std::string& text) {
    return std::string(ResolveCosts(*ParseCosts(text), plan).status().message());
  };
  EXPECT_EQ(message("F=1,B=2"), "the schedule performs 0A0, but there is no cost for A");
  EXPECT_EQ(message("F=1,B=2,A=1,Z=1,Q=3"),
            "unknown cost 'Q' ('stringline sim --help' lists them)");
  EXPECT_EQ(message("F=1,B=2,A=1,Z=1,memory.y=3"),
            "unknown cost 'memory.y' ('stringline sim --help' lists them)");
  EXPECT_EQ(message("F=1,B=2,A=1,Z=1,memory.v=3"), "");
  EXPECT_FALSE(ParseCosts("F=1,q=3").ok());
  // Files are named with the line of the key.
  const auto in_file = [&](const char* text) {
    const absl::StatusOr<CostSpec> spec = ReadCosts(Source("<costs>", text));
    return std::string(ResolveCosts(*spec, plan).status().message());
  };
  EXPECT_EQ(in_file("F: 1\nB: 2\nQ: 3\nA: 1\n"),
            "<costs>:3: unknown cost 'Q' ('stringline sim --help' lists them)");
  EXPECT_EQ(in_file("F: 1\nmemory:\n  v: 2\n  y: 3\n"),
            "<costs>:4: unknown cost 'memory.y' ('stringline sim --help' lists them)");
  EXPECT_EQ(std::string(ResolveCosts(*ReadCosts(CostTable{{"Q", 1}}), plan).status().message()),
            "`costs`: unknown cost 'Q' ('stringline sim --help' lists them)");
}

TEST(OwnActions, AreNotOfTorch) {
  const Plan plan = *PlanOf(absl::StrCat(kHead, "rank 0: 0F0 0A0 0Z0 0B0\n", "rank 1: 1F0 1B0\n"));
  for (const auto& [form, written] :
       {std::pair(TorchForm::kCompute, plan), std::pair(TorchForm::kComms, Lower(plan))}) {
    Diagnostics diagnostics;
    EXPECT_FALSE(PrintTorchCsv(written, {}, form, &diagnostics));
    ASSERT_EQ(diagnostics.findings().size(), 1u);
    EXPECT_EQ(diagnostics.findings()[0].text,
              "0A0: torch's runtime has no actions of a schedule's own");
  }
}

// A copy's time is what it moves over a link: to the host, or to another rank.
TEST(OwnActions, CopyOverTheirLinks) {
  const Plan plan =
      Lower(*PlanOf("plan s P=2 M=1\n"
                    "value host on host\n"
                    "value lent on ranks 1 0\n"
                    "action OUT copy_out gives host frees saved\n"
                    "action BACK copy_in gives saved frees host\n"
                    "action LEND copy_out gives lent frees saved\n"
                    "action TAKE copy_in gives saved frees lent\n"
                    "stages 0 1\n"
                    "rank 0: 0F0 0OUT0 0BACK0 0B0\n"
                    "rank 1: 1F0 1LEND0 1TAKE0 1B0\n"));
  EXPECT_EQ(Findings(plan), "");
  const CostModel costs =
      CostsOf(plan,
              "F=10,B=20,host.bandwidth=2GB/s,bandwidth=10GB/s,message=0,p2p=3ns,memory.host=2kB,"
              "memory.lent=1kB,memory.saved_for_I=2kB");
  const auto kind = [&](const char* name) { return plan.rows.Find(name)->kind; };
  EXPECT_EQ(costs.own.Of(kind("OUT"), StageId(0)), 1000);
  EXPECT_EQ(costs.own.Of(kind("BACK"), StageId(0)), 1000);
  EXPECT_EQ(costs.own.Of(kind("LEND"), StageId(1)), 103);
  // Rank 0's device holds its own microbatch, and that which rank 1 lends, 1 kB.
  const auto timeline = Simulate(plan, costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const MemoryCurves curves = MemoryOver(plan, *timeline, costs.memory);
  EXPECT_EQ(curves.hosts[0].peak, 2000);
  EXPECT_EQ(curves.hosts[1].peak, 0);
  EXPECT_EQ(curves.ranks[0].peak, 3000);
  EXPECT_EQ(curves.ranks[1].peak, 2000);
  const std::vector<StageSizes> sizes = SizesOfCosts(plan, costs.memory);
  EXPECT_EQ(PeakBytesOf(plan, RankId(0), sizes).bytes, 3000);  // room for all that is ever lent
  EXPECT_EQ(PeakBytesOf(plan, RankId(1), sizes).bytes, 2000);
  EXPECT_EQ(PeakOnHostOf(plan, RankId(0), sizes).bytes, 2000);
  // Activations count as they do around D and U.
  EXPECT_EQ(PeakActivationsOf(plan, RankId(0)).count, 1);
}

// A rank has room for all values that others lend it at the same time.
TEST(OwnActions, AreLentSeveralAtOnce) {
  const Plan plan =
      Lower(*PlanOf("plan s P=2 M=3\n"
                    "value lent on ranks 1 0\n"
                    "action LEND copy_out gives lent frees saved\n"
                    "action TAKE copy_in gives saved frees lent\n"
                    "stages 0 1\n"
                    "rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
                    "rank 1: 1F0 1LEND0 1F1 1LEND1 1TAKE0 1B0 1F2 1LEND2 1TAKE1 1B1 1TAKE2 1B2\n"));
  EXPECT_EQ(Findings(plan), "");
  const CostModel costs =
      CostsOf(plan, "F=10,B=20,LEND=1,TAKE=1,message=0,memory.lent=1kB,memory.saved_for_I=2kB");
  const std::vector<StageSizes> sizes = SizesOfCosts(plan, costs.memory);
  EXPECT_EQ(PeakBytesOf(plan, RankId(0), sizes).bytes, 3 * 2000 + 2 * 1000);
}

TEST(OwnActions, AreOfEveryStep) {
  const std::string text = WithRows(kLoss, "C P - 1; S P - 1; G P - 1;");
  const std::optional<Plan> plan = PlanOf(PlanOrFinding(text, "P=2 M=2"));
  EXPECT_EQ(Findings(RepeatSteps(*plan, 3)), "");
}

}  // namespace
}  // namespace stringline
