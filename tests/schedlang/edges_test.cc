// Stages that are no chain: the language's `edges`, plans and their text form, messages by edge,
// and what checker, simulator, bounds, reports and memory make of them. Random plans are judged in
// engines_test and simulator_truth_test.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/align.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/costs/costs.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/bounds.h"
#include "schedlang/report/explain.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

// Two towers of two stages that meet in a fifth, which has the loss.
constexpr char kTowers[] =
    "schedule towers(P, M) {\n"
    "  stages 5 on line;\n"
    "  edges 0 -> 1, 2 -> 3, 1 -> 4, 3 -> 4;\n"
    "  rank r { repeat M { F r } repeat M { B r } }\n"
    "}\n";

std::string Edges(const std::string& edges, int stages = 4) {
  return absl::StrCat("schedule x(P, M) {\n  stages ", stages,
                      " on s -> s;\n  let last = ", stages - 1, ";\n  edges ", edges,
                      ";\n  rank r { repeat M { F r } repeat M { B r } }\n}\n");
}

std::string LineOf(const std::string& text, const std::string& begin) {
  const size_t at = text.find(begin);
  return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
}

TEST(EdgesInText, NameTheEndsOfEachEdge) {
  const auto edges = [](const std::string& said, int stages = 4) {
    return LineOf(Elaborated(Edges(said, stages), {{"P", stages}, {"M", 1}}), "edges");
  };
  EXPECT_EQ(edges("0 -> 2, 1 -> 2, 2 -> 3"), "edges 0>2 1>2 2>3");
  // A name that nothing defines stands for each stage; what leads to no stage is no edge.
  EXPECT_EQ(edges("s -> s + 1, 0 -> last"), "edges 0>1 1>2 0>3 2>3");
  EXPECT_EQ(edges("s -> t where s < t"), "edges 0>1 0>2 1>2 0>3 1>3 2>3");
  EXPECT_EQ(edges("s -> s + 1, s -> last where s < 2"), "edges 0>1 1>2 0>3 1>3 2>3");
  EXPECT_EQ(edges("last -> s where s < last", 3), "edges 2>0 2>1");
  // Edges that are the chain are the default.
  EXPECT_EQ(Elaborated(Edges("s -> s + 1"), {{"P", 4}, {"M", 1}}).find("edges"), std::string::npos);
}

TEST(EdgesInText, AreRefusedWithTheReason) {
  const auto found = [](const std::string& said) {
    return Elaborated(Edges(said), {{"P", 4}, {"M", 1}});
  };
  EXPECT_TRUE(absl::StrContains(found("0 -> 1, 1 -> 2, 2 -> 0"), "0 -> 1 -> 2 -> 0"))
      << found("0 -> 1, 1 -> 2, 2 -> 0");
  EXPECT_TRUE(absl::StrContains(found("0 -> 4"), "there is no stage 4: the stages are 0 .. 3"));
  EXPECT_TRUE(absl::StrContains(found("0 -> 1, 0 -> last - 2"), "is there already"));
  EXPECT_TRUE(absl::StrContains(found("1 -> 1"), "an edge from stage 1 to itself"));
  EXPECT_TRUE(absl::StrContains(found("s -> 1"), "an edge from stage 1 to itself"));
  EXPECT_TRUE(absl::StrContains(found("s -> s + 9"), "no stages have an edge between them"));
  EXPECT_TRUE(absl::StrContains(found("0 -> 1; edges 1 -> 2"), "a second 'edges'"))
      << found("0 -> 1; edges 1 -> 2");
  EXPECT_TRUE(absl::StrContains(
      Elaborated("schedule x(P, M) { pipe down { stages P on line; microbatches M; } edges 0 -> 1; "
                 "rank r { repeat M { F r; B r } } }",
                 {{"P", 2}, {"M", 1}}),
      "'edges' cannot stand beside pipes"));
  EXPECT_TRUE(absl::StrContains(
      Elaborated("schedule x(P, M) { stages P on line; edges 0 -> 1; rank r search { "
                 "costs F 1, B 2; } }",
                 {{"P", 2}, {"M", 1}}),
      "'edges' cannot stand beside a search block"));
}

// `edges` and `where` are free as names.
TEST(EdgesInText, LeaveTheirWordsFree) {
  const std::string plan = Elaborated(
      "schedule x(P, M) { stages P on line; let where = 1; rank r { order edges { repeat M { F r } "
      "} repeat M { edges } repeat M * where { B r } } }",
      {{"P", 1}, {"M", 1}});
  EXPECT_TRUE(absl::StrContains(plan, "rank 0: 0F0 0B0")) << plan;
}

// Every second microbatch leaves stage 1 out: its actions are left out of the order, and what
// enters it goes on.
TEST(SkipsInText, LeaveActionsOut) {
  const std::string plan = Elaborated(
      "schedule x(P, M) { stages P on line; skip s @ m where s == 1 and m % 2 == 1; "
      "rank r { repeat M { F r } repeat M { B r } } }",
      {{"P", 3}, {"M", 3}});
  EXPECT_EQ(plan,
            "plan x P=3 M=3\nstages 0 1 2\nskip 1@1\nrank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
            "rank 1: 1F0 1F2 1B0 1B2\nrank 2: 2F0 2F1 2F2 2B0 2B1 2B2\n");
  const Plan lowered = Lower(PlanFromText(plan));
  EXPECT_EQ(
      LineOf(Print(lowered), "rank 2"),
      "rank 2: 2RECV_F0>1 2F0 2RECV_F1>0 2F1 2RECV_F2>1 2F2 2B0 2SEND_B0>1 2B1 2SEND_B1>0 2B2 "
      "2SEND_B2>1");
  EXPECT_EQ(Print(PlanFromText(Print(lowered))), Print(lowered));
  Diagnostics diagnostics;
  EXPECT_TRUE(Check(lowered, &diagnostics));
  const auto timeline = Simulate(lowered, *ResolveCosts(*ParseCosts("F=1us,B=1us"), lowered));
  ASSERT_TRUE(timeline.ok());
  const auto again = ReadTimeline(Source("x", Print(*timeline)), &diagnostics);
  ASSERT_TRUE(again);
  const auto read = PlanOf(*again);
  ASSERT_TRUE(read);
  EXPECT_EQ(Print(read->skips), "skip 1@1\n");
}

TEST(SkipsInText, AreRefusedWithTheReason) {
  const auto found = [](const std::string& said,
                        const std::string& rank = "rank r { repeat M { F r } repeat M { B r } }") {
    return Elaborated(absl::StrCat("schedule x(P, M) { stages P on line; ", said, " ", rank, " }"),
                      {{"P", 4}, {"M", 2}});
  };
  const auto has = [&](const std::string& text, const std::string& reason) {
    EXPECT_TRUE(absl::StrContains(text, reason)) << text;
  };
  has(found("skip s @ m where s == 0;"), "stage 0 reads the data, so no microbatch leaves it out");
  has(found("skip s @ m where s == 3;"), "stage 3 has a loss, so no microbatch leaves it out");
  has(found("edges 0 -> 2, 1 -> 2, 2 -> 3; skip s @ m where s == 2;"), "has several inputs");
  has(found("edges s -> s + 1, 1 -> 3; skip s @ m where s == 2;"),
      "stage 3 would get the output of stage 1 twice");
  has(found("skip s @ m where s == 1;", "rank r greedy { prefer B, F; }"),
      "'skip' stands in a schedule whose rank block lists actions");
  has(found("skip s @ m where 1 / 0 == 1;"), "divi");
  has(found("skip s @ m where s == 1; skip s @ m where s == 2;"), "a second 'skip'");
  has(Elaborated("schedule x(P, M) { stages P on s -> 0; skip s @ m where s == 1; rank r { F 0 } }",
                 {{"P", 32769}, {"M", 1}}),
      "stages among which microbatches leave some out are at most 32768");
  const auto read = [](const std::string& text) {
    const Source source("x.plan", text);
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadPlan(source, &diagnostics));
    return Render(diagnostics, source);
  };
  has(read("plan x P=1 M=2\nstages 0 0 0\nskip 1@1\nrank 0: 0F1 1F1\n"),
      "1F1: the microbatch leaves stage 1 out");
  std::string many = "plan x P=1 M=2\nstages";
  for (int s = 0; s <= kMostStagesOfEdges; ++s) absl::StrAppend(&many, " 0");
  has(read(absl::StrCat(many, "\nskip 1@1\nrank 0: 0F0\n")),
      "stages among which microbatches leave some out are at most 32768");
}

// Multi-token prediction on a stage of its own has a loss of its own.
TEST(EdgesInText, LayoutsHaveALossInEveryLastStage) {
  const auto split = [](const std::string& layout) {
    return Elaborated(
        absl::StrCat("schedule x(P, M) { stages P on line; edges 0 -> 1, 0 -> 2; split \"", layout,
                     "\"; rank r { repeat M { F r } repeat M { B r } } }"),
        {{"P", 3}, {"M", 1}});
  };
  EXPECT_TRUE(absl::StrContains(split("Et|tL|mL"), "split layout Et tL mL")) << split("Et|tL|mL");
  EXPECT_TRUE(absl::StrContains(split("Et|tL|m"), "stage 2 of the layout, 'm', has no loss"));
  EXPECT_TRUE(absl::StrContains(split("EtL|tL|mL"), "stage 0 of the layout, 'EtL', has a loss"));
  EXPECT_TRUE(
      absl::StrContains(split("Et|EtL|mL"), "stage 1 of the layout, 'EtL', has an embedding"));
  EXPECT_TRUE(absl::StrContains(split("tE|tL|mL"), "is first in its stage, and not in 'tE'"));
  EXPECT_TRUE(absl::StrContains(split("Et|Lt|mL"), "is last in its stage, and not in 'Lt'"));
}

Plan Towers(int microbatches) {
  const std::string text = Elaborated(kTowers, {{"P", 5}, {"M", microbatches}});
  return PlanFromText(text);
}

TEST(EdgesInPlans, MessagesNameTheirPeerAndReadBack) {
  const Plan lowered = Lower(Towers(1));
  const std::string text = Print(lowered);
  EXPECT_TRUE(
      absl::StrContains(text, "rank 4: 4RECV_F0>1 4RECV_F0>3 4F0 4B0 4SEND_B0>1 4SEND_B0>3\n"))
      << text;
  EXPECT_TRUE(
      absl::StrContains(text, "rank 1: 1RECV_F0>0 1F0 1SEND_F0>4 1RECV_B0>4 1B0 1SEND_B0>0"))
      << text;
  EXPECT_EQ(Print(PlanFromText(text)), text);
  const auto timeline = Simulate(lowered, *ResolveCosts(*ParseCosts("F=3,B=5,p2p=1"), lowered));
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  Diagnostics diagnostics;
  const std::string times = Print(*timeline);
  const auto again = ReadTimeline(Source("x", times), &diagnostics);
  ASSERT_TRUE(again);
  EXPECT_EQ(Print(*again), times);
  const auto plan = PlanOf(*again);
  ASSERT_TRUE(plan);
  EXPECT_EQ(PrintEdges(plan->graph.edges()), "edges 0>1 2>3 1>4 3>4\n");
}

// A stage on a path of its own begins with the data; the meeting stage waits for the longer tower.
TEST(EdgesInPlans, StepIsTheLongestPath) {
  const Plan lowered = Lower(Towers(1));
  const CostModel costs = *ResolveCosts(
      *ParseCosts("F=[1us,2us,10us,20us,5us],B=[2us,4us,30us,10us,7us],p2p=1us"), lowered);
  const auto timeline = Simulate(lowered, costs);
  ASSERT_TRUE(timeline.ok());
  // 2F 3F 4F 4B 3B 2B and the four messages between them.
  EXPECT_EQ(MakespanOf(*timeline), (10 + 20 + 5 + 7 + 10 + 30 + 4) * 1000);
  EXPECT_EQ(LowerBoundOf(lowered, costs).makespan_ns, MakespanOf(*timeline));
}

TEST(EdgesInPlans, SeveralLosses) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=1\nstages 0 0 0\nedges 0>1 0>2\nrank 0: 0F0 2F0 1F0 1B0 2B0 0B0\n");
  Diagnostics diagnostics;
  EXPECT_TRUE(Check(Lower(plan), &diagnostics));
}

TEST(EdgesInPlans, AnInputThatIsNotThereIsNamed) {
  const Source source("x.plan",
                      "plan x P=1 M=1\nstages 0 0 0\nedges 0>2 1>2\nrank 0: 0F0 2F0 1F0 2B0 1B0 "
                      "0B0\n");
  Diagnostics diagnostics;
  const auto plan = ReadPlan(source, &diagnostics);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(Check(Lower(*plan), &diagnostics));
  const std::string found = Render(diagnostics, source);
  EXPECT_TRUE(absl::StrContains(found, "for the activation of stage 1, microbatch 0")) << found;
}

TEST(EdgesInPlans, TextIsRefusedWithTheReason) {
  const auto refused = [](const std::string& text) {
    const Source source("x.plan", text);
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadPlan(source, &diagnostics));
    return Render(diagnostics, source);
  };
  const std::string head = "plan x P=2 M=1 lowered\nstages 0 1\n";
  EXPECT_TRUE(absl::StrContains(refused(head + "edges 0>1 0>1\nrank 0:\nrank 1:\n"), "twice"));
  EXPECT_TRUE(absl::StrContains(refused(head + "edges 0>1 1>0\nrank 0:\nrank 1:\n"), "cycle"));
  EXPECT_TRUE(absl::StrContains(refused(head + "edges 0>2\nrank 0:\nrank 1:\n"), "below 2"));
  EXPECT_TRUE(absl::StrContains(refused(head + "edges 1>0\nrank 0: 0SEND_F0>1\nrank 1:\n"),
                                "no edge joins"));
  EXPECT_TRUE(absl::StrContains(refused(head + "edges 1>0\nrank 0: 0RECV_F0\nrank 1:\n"),
                                "names its other stage"));
  EXPECT_TRUE(absl::StrContains(refused(head + "rank 0: 0SEND_F0>3\nrank 1:\n"), "no edge joins"));
}

TEST(EdgesInCosts, MessagesHaveSizesOfTheirOwn) {
  const Plan lowered = Lower(Towers(1));
  const CostModel costs = *ResolveCosts(
      *ParseCosts("F=1us,B=1us,bandwidth=1GB/s,message=2MB,message.3>4=8MB,memory.saved_for_I=1MB"),
      lowered);
  std::map<std::string, int64_t> transfer;
  for (const Edge& edge : lowered.graph.edges()) {
    transfer[absl::StrCat(edge.from.value, ">", edge.to.value)] =
        HopOf(costs, edge, {.kind = ActionKind::kSendForward}).transfer_ns;
  }
  const std::map<std::string, int64_t> expected = {
      {"0>1", 2'000'000}, {"1>4", 2'000'000}, {"2>3", 2'000'000}, {"3>4", 8'000'000}};
  EXPECT_EQ(transfer, expected);
  EXPECT_FALSE(ResolveCosts(*ParseCosts("F=1us,B=1us,message.0>4=8MB"), lowered).ok());
  EXPECT_FALSE(ResolveCosts(*ParseCosts("F=1us,B=1us,bandwidth=1GB/s,message.3>4=8MB"), lowered)
                   .ok());  // the other edges have no size
}

// The bytes alive, counted group by group from the values that each edge has at both of its ends.
int64_t SlowPeak(const Plan& plan, int rank, const std::vector<StageSizes>& sizes) {
  using Key = std::tuple<int, int, int>;  // entry, microbatch, value
  std::map<Key, int64_t> alive;
  int64_t most = 0;
  const auto bytes = [&](int entry, StageValue value) {
    return sizes[static_cast<size_t>(entry)].of_microbatch[value];
  };
  const auto on = [&](StageId stage) { return plan.stage(stage).rank.value == rank; };
  const auto actions = plan.of(RankId(rank));
  for (size_t i = 0; i < actions.size();) {
    const auto group = GroupAt(actions, i);
    i += group.size();
    std::vector<Key> ends;
    for (const Action& a : group) {
      const int m = a.microbatch.value, s = a.stage.value;
      const auto begin = [&](int entry, StageValue value) {
        alive[{entry, m, static_cast<int>(value)}] = bytes(entry, value);
      };
      const auto end = [&](int entry, StageValue value) {
        ends.emplace_back(entry, m, static_cast<int>(value));
      };
      for (const Edge& edge : plan.graph.edges()) {
        if (plan.GraphOf(a.microbatch).Find(edge.from, edge.to) == nullptr) continue;
        const int entry = plan.graph.stages() + edge.id;
        const bool of_message =
            IsMessage(a.kind) && EdgeOf(plan, a) != nullptr && EdgeOf(plan, a)->id == edge.id;
        const bool leads_here = edge.to == a.stage, leaves = edge.from == a.stage;
        const bool back = a.kind == ActionKind::kBackward || a.kind == ActionKind::kInputGradient;
        if (a.kind == ActionKind::kForward && leaves) {
          on(edge.to) ? begin(entry, StageValue::kInput) : begin(entry, StageValue::kOutput);
        }
        if (a.kind == ActionKind::kForward && leads_here) end(entry, StageValue::kInput);
        if (back && leads_here) {
          on(edge.from) ? begin(entry, StageValue::kOutGrad) : begin(entry, StageValue::kInGrad);
        }
        if (back && leaves) end(entry, StageValue::kOutGrad);
        if (!of_message) continue;
        if (a.kind == ActionKind::kSendForward) end(entry, StageValue::kOutput);
        if (a.kind == ActionKind::kSendBackward) end(entry, StageValue::kInGrad);
        if (a.kind == ActionKind::kRecvForward) begin(entry, StageValue::kInput);
        if (a.kind == ActionKind::kRecvBackward) begin(entry, StageValue::kOutGrad);
      }
      if (a.kind == ActionKind::kForward) begin(s, StageValue::kSavedForWeight);
      if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kWeightGradient) {
        end(s, StageValue::kSavedForWeight);
      }
    }
    int64_t sum = 0;
    for (const auto& [key, size] : alive) sum += size;
    most = std::max(most, sum);
    for (const Key& key : ends) alive.erase(key);
  }
  return most;
}

TEST(EdgesInMemory, EveryEdgeHasItsOwnValues) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    Plan plan = RandomRightPlan(random, 6, 4, /*copies=*/false, /*edges=*/true);
    // Without R, whose values SlowPeak does not know.
    const auto is_r = [](const Action& a) { return a.kind == ActionKind::kRecompute; };
    if (plan.graph.is_chain()) continue;
    if (std::any_of(plan.actions.begin(), plan.actions.end(), is_r)) continue;
    const Plan lowered = Lower(plan);
    std::vector<StageSizes> sizes(static_cast<size_t>(lowered.graph.entries()));
    for (size_t e = 0; e < sizes.size(); ++e) {
      StageBytes& of = sizes[e].of_microbatch;
      const auto drawn = static_cast<int64_t>(1 + Below(random, 50)) * kBufferAlignment;
      if (e < lowered.stages.size()) {
        of[StageValue::kSavedForWeight] = drawn;
        continue;
      }
      for (const StageValue value :
           {StageValue::kInput, StageValue::kOutput, StageValue::kInGrad, StageValue::kOutGrad}) {
        of[value] = drawn;
      }
    }
    const auto memory = PlanMemory(lowered, sizes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (int r = 0; r < lowered.ranks(); ++r) {
      if (lowered.of(RankId(r)).empty()) continue;
      const int64_t slow = SlowPeak(lowered, r, sizes);
      EXPECT_EQ(PeakBytesOf(lowered, RankId(r), sizes).bytes, slow) << Print(lowered);
      // The memory plan knows only of deaths that its messages tell, so it takes as much or more.
      EXPECT_GE(memory->ranks[r].block, slow) << Print(lowered);
    }
  }
}

// Reports take random plans: idle time is explained, causes add up, and curves end where they
// began.
TEST(EdgesInReports, ExplainEveryGroup) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Plan lowered = Lower(RandomRightPlan(random, 6, 3, /*copies=*/true, /*edges=*/true));
    const CostModel costs =
        *ResolveCosts(*ParseCosts("F=3us,B=7us,I=4us,W=3us,R=3us,D=2us,U=2us,p2p=1us,"
                                  "message=64,bandwidth=1GB/s,memory.saved_for_I=256"),
                      lowered);
    const auto timeline = Simulate(lowered, costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_LE(LowerBoundOf(lowered, costs).makespan_ns, MakespanOf(*timeline)) << Print(lowered);
    const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
    ASSERT_TRUE(wiring.whole);
    for (uint32_t i = 0; i < lowered.actions.size(); ++i) {
      if (!IsCompute(lowered.actions[i].kind) || lowered.actions[i].joined) continue;
      const Explanation explained = Explain(lowered, *timeline, wiring, costs, i);
      EXPECT_EQ(explained.chain.back().begin_ns, 0);
    }
    const Analysis analysis = Analyze(lowered, *timeline, wiring);
    EXPECT_FALSE(analysis.critical.empty());
    // Nothing of a microbatch is left at the end.
    for (const MemoryCurve& curve : MemoryOver(lowered, *timeline, costs.memory).ranks) {
      const int64_t left = curve.points.empty() ? 0 : curve.points.back().amount;
      EXPECT_EQ(left, 0) << Print(lowered);
    }
  }
}

}  // namespace
}  // namespace stringline
