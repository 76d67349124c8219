// Greedy orders made for costs that differ by stage, and for messages that take time: their syntax,
// and equality with the simulator's order at the same costs.
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/check/check.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/orders/greedy.h"
#include "schedlang/report/analysis.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "schedlang/text/uses.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/plan_text.h"

namespace stringline {
namespace {

// The `costs` line of the plan, or the first line of the findings.
std::string CostsLineOf(const std::string& costs, const std::string& more = "") {
  const std::string answer =
      Elaborated(absl::StrCat("schedule s(P, M) { ", more.empty() ? "stages P on line;" : more,
                              " rank r greedy { prefer B, F; ", costs, " } }"),
                 {{"P", 3}, {"M", 2}});
  const size_t line = answer.find("costs F=");
  const std::string from = line == std::string::npos ? answer : answer.substr(line);
  const std::string first = from.substr(0, from.find('\n'));
  return first.substr(0, first.find(" (and "));
}

TEST(GreedyCostsTest, AreSaidForAllStagesOrForEach) {
  constexpr const char* kPipes =
      "pipe down { stages P on line; microbatches 1; } "
      "pipe up { stages P on reversed line; microbatches 1; }";
  EXPECT_EQ(CostsLineOf(""), "costs F=1 B=2 I=1 W=1");
  EXPECT_EQ(CostsLineOf("costs F 3, B 4;"), "costs F=3 B=4");
  EXPECT_EQ(CostsLineOf("costs F s -> s == P - 1 ? 5 : M, B [1, M, 3], p2p 1 + 2"),
            "costs F=[2,2,5] B=[1,2,3] p2p=3");
  EXPECT_EQ(CostsLineOf("costs p2p 3"), "costs F=1 B=2 I=1 W=1 p2p=3");
  // As on the command line B is I and W.
  EXPECT_EQ(CostsLineOf("costs F 1, I 12, W v -> v + 1"), "costs F=1 B=[13,14,15] I=12 W=[1,2,3]");
  EXPECT_EQ(CostsLineOf("costs F 1, I [1, 2, 3], W 7"), "costs F=1 B=[8,9,10] I=[1,2,3] W=7");
  EXPECT_EQ(CostsLineOf("costs F 1, I 2, W 3, B 4"), "costs F=1 B=4 I=2 W=3");
  // With pipes, a stage is counted in its pipe.
  EXPECT_EQ(CostsLineOf("costs F s -> s + 1, B 2", kPipes), "costs F=[1,2,3] B=2");

  EXPECT_EQ(CostsLineOf("costs B 1, F [1, 2]"),
            "x.sched:1:78: error: costs of 2 stages, but there are 3");
  EXPECT_EQ(CostsLineOf("costs B 1, F [1]", kPipes),
            "x.sched:1:163: error: costs of 1 stage, but every pipe has 3");
  EXPECT_EQ(CostsLineOf("costs B 1, F s -> s"),
            "x.sched:1:85: error: a cost of 0, with s = 0; costs are 1 .. 1000000000");
  EXPECT_EQ(CostsLineOf("costs p2p 0 - M"),
            "x.sched:1:77: error: a cost of -2, with M = 2; costs of messages are 0 .. 1000000000");
  EXPECT_EQ(CostsLineOf("costs p2p s -> s"),
            "x.sched:1:73: error: 'p2p' is one cost, of every message between two ranks");
  EXPECT_EQ(CostsLineOf("costs p2p 1, p2p 2"), "x.sched:1:80: error: a second 'p2p'");
  EXPECT_EQ(CostsLineOf("costs F 1, F 2"), "x.sched:1:78: error: 'F' is named a second time");
  EXPECT_EQ(CostsLineOf("costs B 1, F r + 1"),
            "x.sched:1:67: error: the costs are not the same on all ranks");
  EXPECT_EQ(
      CostsLineOf("costs q2q 1"),
      "x.sched:1:73: error: expected an action, 'p2p', 'microbatch', 'saved_for_I', 'saved_for_W', "
      "'stash' or 'input' before 'q2q'");
  EXPECT_EQ(CostsLineOf("costs F 1, B 2, microbatch [3, M]"), "costs F=1 B=2 microbatch=[3,2]");
  EXPECT_EQ(CostsLineOf("costs microbatch m -> m + 1, p2p 1"),
            "costs F=1 B=2 I=1 W=1 microbatch=[1,2] p2p=1");
  // With pipes, a microbatch is counted through them.
  EXPECT_EQ(CostsLineOf("costs microbatch m -> m + 1", kPipes),
            "costs F=1 B=2 I=1 W=1 microbatch=[1,2]");
  EXPECT_EQ(CostsLineOf("costs microbatch [1, 2, 3]"),
            "x.sched:1:73: error: costs of 3 microbatches, but there are 2");
  EXPECT_EQ(CostsLineOf("costs microbatch m -> m"),
            "x.sched:1:89: error: a cost of 0, with m = 0; factors of microbatches are 1 .. "
            "1000000000");
  EXPECT_EQ(CostsLineOf("costs microbatch 2"),
            "x.sched:1:73: error: 'microbatch' tells microbatches apart: 'm -> …', or a list with "
            "a factor for each");
  EXPECT_EQ(CostsLineOf("costs F F -> 1"),
            "x.sched:1:75: error: 'F' is an action and names nothing else");
}

// A random greedy schedule: its stages and rules, with the costs left out.
struct GreedySchedule {
  std::string begin;  // up to the costs
  int ranks = 0;
  int stages = 0;  // per pipe
  int microbatches = 0;

  std::string With(const std::string& costs) const { return absl::StrCat(begin, costs, " } }"); }
};

GreedySchedule DrawGreedy(std::mt19937* random) {
  const auto pick = [random](int n) {
    return static_cast<int>((*random)() % static_cast<unsigned>(n));
  };
  GreedySchedule drawn;
  drawn.ranks = 1 + pick(5);
  drawn.microbatches = 1 + pick(8);
  const int per_rank = 1 + pick(3);
  const bool pipes = pick(4) == 0;
  drawn.stages = pipes ? drawn.ranks : per_rank * drawn.ranks;
  const char* const layout = pick(2) == 0 ? "loop" : "wave";
  const std::string placed = pipes
                                 ? "pipe a { stages P on line; microbatches M / 2; } "
                                   "pipe b { stages P on reversed line; microbatches M - M / 2; } "
                                 : absl::StrCat("stages ", drawn.stages, " on ", layout, "; ");
  const char* const kPrefer[] = {"B, F",    "F, B",       "I, F, W",   "I, W, F",
                                 "W, I, F", "B, I, W, F", "B, R, F",   "B, F, R",
                                 "R, B, F", "I, R, F, W", "I, F, W, R"};
  const std::string prefer = kPrefer[pick(11)];
  const bool remakes = prefer.find('R') != std::string::npos;
  // Rules that hold back may leave a rank without an end; another test covers them.
  drawn.begin = absl::StrCat("schedule s(P, M) { ", placed, remakes ? "recompute all; " : "",
                             "rank r greedy { prefer ", prefer, "; ",
                             !pipes && per_rank == 1 && pick(2) == 0 ? "hold at most P - r; " : "");
  return drawn;
}

std::optional<Plan> GreedyPlan(const GreedySchedule& drawn, const std::string& costs) {
  Diagnostics findings;
  Source source("x.sched", drawn.With(costs));
  const auto file = ParseWithUses(&source, ReadBeside, &findings);
  std::optional<Plan> plan;
  if (file) {
    plan = Elaborate(*file, "", {{"P", drawn.ranks}, {"M", drawn.microbatches}}, &findings);
  }
  EXPECT_TRUE(findings.empty()) << Render(findings, source);
  return plan;
}

// The plan's costs, by stage of the plan.
CostModel GreedyCostModel(const Plan& plan) {
  CostModel model;
  std::vector<int64_t>* const lists[] = {&model.forward, &model.backward, &model.input_gradient,
                                         &model.weight_gradient};
  for (size_t k = 0; k < 4; ++k) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const int first = plan.pipes.empty() ? 0 : plan.pipes[plan.stages[s].pipe].first_stage.value;
      if (plan.costs.actions[k].empty()) continue;
      lists[k]->push_back(plan.costs.of(static_cast<ActionKind>(k), static_cast<int>(s) - first));
    }
  }
  model.recompute = model.forward;
  model.hop = plan.costs.p2p;
  return model;
}

std::string DrawGreedyCosts(const GreedySchedule& drawn, std::mt19937* random) {
  std::string costs = "costs ";
  for (const char letter : {'F', 'B', 'I', 'W'}) {
    std::vector<int> values(static_cast<size_t>(drawn.stages));
    for (int& value : values) value = 1 + static_cast<int>((*random)() % 9);
    absl::StrAppend(&costs, std::string(1, letter), " [", absl::StrJoin(values, ", "), "], ");
  }
  if ((*random)() % 2 == 0) {
    std::vector<int> factors(static_cast<size_t>(drawn.microbatches));
    for (int& factor : factors) factor = 1 + static_cast<int>((*random)() % 4);
    absl::StrAppend(&costs, "microbatch [", absl::StrJoin(factors, ", "), "], ");
  }
  return absl::StrCat(costs, "p2p ", (*random)() % 6, ";");
}

TEST(GreedyCostsTest, TheOrderIsRightAndTakesWhatItWasMadeFor) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  for (int round = 0; round < 1500; ++round) {
    const GreedySchedule drawn = DrawGreedy(&random);
    const std::string costs = DrawGreedyCosts(drawn, &random);
    SCOPED_TRACE(drawn.With(costs));
    const std::optional<Plan> plan = GreedyPlan(drawn, costs);
    ASSERT_TRUE(plan);
    const Plan lowered = Lower(*plan);
    Diagnostics findings;
    ASSERT_TRUE(Check(lowered, &findings)) << findings.findings()[0].text;
    // The order once more from the costs kept in the plan, held against the plan.
    std::vector<int64_t> microbatches;
    for (size_t s = 0; s < plan->stages.size(); ++s) {
      microbatches.push_back(plan->microbatches_of(StageId(static_cast<int32_t>(s))));
    }
    const std::string text = Print(*plan);
    Source source("x.plan", text);
    const std::optional<Plan> read = ReadPlan(source, &findings);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->costs, plan->costs);
    std::vector<GreedyRule> rules(static_cast<size_t>(drawn.ranks));
    const size_t prefer = drawn.begin.find("prefer ") + 7;
    for (size_t r = 0; r < rules.size(); ++r) {
      for (const char c : drawn.begin.substr(prefer, drawn.begin.find(';', prefer) - prefer)) {
        const size_t kind = absl::string_view("FBIWR").find(c);
        if (kind != absl::string_view::npos) {
          rules[r].prefer.push_back(static_cast<ActionKind>(kind));
        }
      }
      if (drawn.begin.find("hold") != std::string::npos) {
        rules[r].hold = drawn.ranks - static_cast<int64_t>(r);
      }
    }
    const GreedyOrder order = OrderGreedily(*plan, microbatches, rules, plan->costs);
    for (size_t r = 0; r < rules.size(); ++r) {
      const auto actions = plan->of(RankId(static_cast<int32_t>(r)));
      ASSERT_EQ(order.ranks[r].size(), actions.size());
      for (size_t i = 0; i < actions.size(); ++i) {
        ASSERT_EQ(Print(*plan, order.ranks[r][i]), Print(*plan, actions[i]));
      }
    }
    const auto own = ResolveCosts(CostSpec(), lowered);
    ASSERT_TRUE(own.ok()) << own.status();
    CostModel of_plan = GreedyCostModel(*plan);
    of_plan.shares = own->shares;
    const auto timeline = Simulate(lowered, of_plan);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const int64_t makespan = MakespanOf(*timeline);
    ASSERT_LE(makespan, order.makespan) << text;
    // An R that the rule does not yet allow may begin earlier in the list.
    const bool remakes = drawn.begin.find("recompute") != std::string::npos;
    if (!remakes) {
      ASSERT_EQ(makespan, order.makespan) << text;
    }
    ASSERT_EQ(MakespanOf(*Simulate(lowered, *own)), makespan * 1'000'000) << text;
  }
}

// Equal costs given stage by stage equal the same costs given once; without costs, messages take no
// time. Given costs are not mixed with defaults.
TEST(GreedyCostsTest, AreGivenForAllKindsOrForNone) {
  const struct {
    const char* rules;
    const char* missing;  // "": none
  } rows[] = {
      {"greedy { prefer B, F; costs F 3;", "B, which 'prefer' names"},
      {"greedy { costs B 3; prefer B, F;", "F, which 'prefer' names"},
      {"greedy { prefer I, F, W; costs F 1, B 20;", "I and W, which 'prefer' names"},
      {"greedy { prefer I, F, W; costs F 1, I 2;", "W, which 'prefer' names"},
      {"greedy { prefer B, F; costs F 1, I 2;", "B, which 'prefer' names"},
      {"greedy { prefer B, F; costs F 1, I 2, W 3;", ""},
      {"greedy { prefer I, F, W; costs F 1, I 2, W 3;", ""},
      {"search { costs F 10, B 20;",
       "I and W, which a search may use where no 'prefer' names kinds"},
      {"search { costs F 10, I 12;",
       "B and W, which a search may use where no 'prefer' names kinds"},
      {"search { costs F 10, I 12, W 7;", ""},
      {"search { prefer F, B; costs F 10, B 20;", ""},
      {"search { prefer F, B; costs F 10, I 12, W 7;", ""},
      {"search { prefer F, I, W; costs B 20, I 12, W 7;", "F, which 'prefer' names"},
  };
  for (const auto& row : rows) {
    const std::string answer =
        Elaborated(absl::StrCat("schedule s(P, M) { stages P on line; rank r ", row.rules, " } }"),
                   {{"P", 2}, {"M", 2}});
    const std::string expected = absl::StrCat(": error: the costs lack ", row.missing);
    EXPECT_EQ(answer.find(expected) != std::string::npos, row.missing[0] != 0) << row.rules << "\n"
                                                                               << answer;
    EXPECT_EQ(answer.find("error") != std::string::npos, row.missing[0] != 0) << row.rules << "\n"
                                                                              << answer;
  }
}

// A search uses the costs of its block: B takes as long as I and W.
TEST(GreedyCostsTest, AnOrderIsForTheCostsThatAreWritten) {
  const auto reached = [](const std::string& costs) {
    const std::string plan =
        Elaborated(absl::StrCat("schedule s(P, M) { stages P on line; rank r search { ", costs,
                                " prefer F, B; } }"),
                   {{"P", 2}, {"M", 2}});
    const size_t at = plan.find("search ");
    return at == std::string::npos ? plan : plan.substr(at, plan.find('\n', at) - at);
  };
  // Two microbatches, of which the first stage's F and B are not beside the second stage's.
  EXPECT_EQ(reached("costs F 10, I 12, W 7;"), "search makespan=87 bound=87");
  EXPECT_EQ(reached("costs F 10, I 12, W 7;"), reached("costs F 10, B 19;"));
}

// Costs of a block or a pair, and the plan's own value.
void ExpectSimulatedAtItsOwnCosts(const Plan& plan) {
  const std::string text = Print(plan);
  SCOPED_TRACE(text);
  const Source source("x.plan", text);
  Diagnostics findings;
  const std::optional<Plan> read = ReadPlan(source, &findings);
  ASSERT_TRUE(read) << Render(findings, source);
  ASSERT_EQ(Print(*read), text);
  for (const Plan* const from : {&plan, &*read}) {
    const Plan lowered = Lower(*from);
    const auto costs = ResolveCosts(CostSpec(), lowered);
    ASSERT_TRUE(costs.ok()) << costs.status();
    EXPECT_TRUE(costs->of_order);
    EXPECT_EQ(OrderFitOf(lowered, *costs), OrderFit::kOwn);
    const auto timeline = Simulate(lowered, *costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_EQ(MakespanOf(*timeline), plan.searched.value * 1'000'000);
  }
}

TEST(GreedyCostsTest, AStepTakesWhatItsSearchSays) {
  const struct {
    const char* block;
    int p, m;
  } rows[] = {
      {"rank r search { place line, v; layers 8; split any; costs F l -> l == 7 ? 3 : 1, "
       "B l -> l == 7 ? 6 : 2; prefer F, B; within activations 2 * P; }",
       2, 3},
      {"rank r search { place v; layers 6; split any; costs F l -> l + 1, I 3, W l -> 7 - l, "
       "p2p 2; }",
       2, 3},
      {"stages P on line; rank r search { costs F 3, B [4, 5]; prefer F, B; pairs F & B costs "
       "s -> s + 5; }",
       2, 4},
      {"stages 2 * P on v; rank r search { costs F 3, I 4, W 2, p2p 1; prefer F, I, W; pairs F & I "
       "costs 5; }",
       2, 3},
      {"rank r search { place loop 2; layers 7; split any; costs F l -> 2 + l % 2, B 5; prefer F, "
       "B; pairs F & B costs l -> l == 3 ? 7 : 6; }",
       2, 4},
      {"stages 2 * P on v; rank r search { prefer F, B; pairs F & B; }", 2, 3},
      {"pipe down { stages P on line; microbatches M / 2; } pipe up { stages P on reversed line; "
       "microbatches M - M / 2; } rank r search { costs F [3, 1], B [2, 5]; prefer F, B; }",
       2, 4},
  };
  for (const auto& row : rows) {
    const Source source("x.sched", absl::StrCat("schedule s(P, M) { ", row.block, " }"));
    Diagnostics findings;
    const auto file = Parse(source, &findings);
    ASSERT_TRUE(file) << Render(findings, source);
    const auto plan = Elaborate(*file, "", {{"P", row.p}, {"M", row.m}}, &findings);
    ASSERT_TRUE(plan && findings.empty()) << Render(findings, source);
    ASSERT_EQ(plan->searched.objective, "makespan");
    ExpectSimulatedAtItsOwnCosts(*plan);
  }
}

// An order for stages that recompute is one for a B that takes as long as theirs.
TEST(GreedyCostsTest, StagesThatRecomputeTakeTheirFAgain) {
  const auto orders = [](const std::string& block) {
    const std::string plan = Elaborated(
        absl::StrCat("schedule s(P, M) { stages 2 * P on v; ", block, " }"), {{"P", 3}, {"M", 6}});
    return plan.substr(plan.find("rank 0"));
  };
  const std::string again = orders(
      "recompute s -> s < 2; rank r greedy { prefer B, F; "
      "costs F s -> 2 + s % 2, B 3; }");
  EXPECT_EQ(again, orders("rank r greedy { prefer B, F; costs F s -> 2 + s % 2, "
                          "B s -> 3 + (s < 2 ? 2 + s % 2 : 0); }"));
  EXPECT_NE(again, orders("rank r greedy { prefer B, F; costs F s -> 2 + s % 2, B 3; }"));
}

// Costs of a model become those of an order: whole numbers, without the F that is done again.
TEST(GreedyCostsTest, ComeFromCostsOfASimulation) {
  const auto line = [](const std::string& schedule, const std::string& costs) {
    const Plan plan = PlanFromText(schedule);
    const auto order = OrderCostsFrom(plan, *ResolveCosts(*ParseCosts(costs), plan));
    return order ? Print(*order) : "none";
  };
  const std::string two = "plan s P=2 M=1\nstages 0 1\nrank 0: 0F0 0B0\nrank 1: 1F0 1B0\n";
  EXPECT_EQ(line(two, "F=10,B=[20,25],p2p=5"), "costs F=2 B=[4,5] p2p=1");
  EXPECT_EQ(line(two, "F=10,I=6,W=4"), "costs F=5 B=5 I=3 W=2");
  EXPECT_EQ(line(two, "F=10,I=6,W=4,recompute=[1,0]"), "costs F=5 B=5 I=3 W=2");
  EXPECT_EQ(line(two, "F=3s,B=7000000001ns"), "none");
}

// Other costs are told from those in the same proportions.
TEST(GreedyCostsTest, AStepKnowsWhetherItsOrderIsForItsCosts) {
  const GreedySchedule drawn{"schedule s(P, M) { stages P on line; rank r greedy { prefer B, F; ",
                             3, 3, 4};
  const Plan plan = Lower(*GreedyPlan(drawn, "costs F 2, B 3, p2p 1;"));
  const auto fit = [&](const char* costs) {
    return OrderFitOf(plan, *ResolveCosts(*ParseCosts(costs), plan));
  };
  EXPECT_EQ(fit("F=2ms,B=3ms,p2p=1ms"), OrderFit::kAlike);
  EXPECT_EQ(fit("F=20us,B=30us,p2p=10us"), OrderFit::kAlike);
  EXPECT_EQ(fit("F=20us,B=30us"), OrderFit::kOther);
  EXPECT_EQ(fit("F=20us,B=31us,p2p=10us"), OrderFit::kOther);
  EXPECT_EQ(fit("p2p=2ms"), OrderFit::kChanged);
  EXPECT_EQ(fit("p2p=1ms"), OrderFit::kOwn);
  const Plan none = Lower(PlanFromText("plan x P=1 M=1\nstages 0\nrank 0: 0F0 0B0\n"));
  EXPECT_EQ(OrderFitOf(none, *ResolveCosts(CostSpec(), none)), OrderFit::kNoCosts);
}

// A plan with actions that its order's costs do not price asks for costs.
TEST(GreedyCostsTest, AChangedOrderAsksForTheCostsItLacks) {
  const Plan plan = PlanFromText("plan x P=1 M=1\nstages 0\ncosts F=1 B=2\nrank 0: 0F0 0I0 0W0\n");
  EXPECT_EQ(ResolveCosts(CostSpec(), plan).status().message(),
            "the schedule performs 0I0, but there is no cost for I; its order was made for other "
            "kinds (costs F=1 B=2): give costs");
}

TEST(GreedyCostsTest, EqualCostsAreOneCost) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  const auto orders_of = [](const std::optional<Plan>& plan) {
    const std::string text = Print(*plan);
    return text.substr(text.find("rank 0"));
  };
  for (int round = 0; round < 300; ++round) {
    const GreedySchedule drawn = DrawGreedy(&random);
    SCOPED_TRACE(drawn.begin);
    const int f = 1 + static_cast<int>(random() % 5), b = 1 + static_cast<int>(random() % 5);
    const std::string rest = ", I 1, W 1";
    EXPECT_EQ(orders_of(GreedyPlan(drawn, absl::StrCat("costs F ", f, ", B ", b, rest))),
              orders_of(GreedyPlan(drawn, absl::StrCat("costs F s -> ", f, ", B s -> s * 0 + ", b,
                                                       ", p2p 0", rest))));
    EXPECT_EQ(orders_of(GreedyPlan(drawn, "")),
              orders_of(GreedyPlan(drawn, "costs F 1, B 2, I 1, W 1")));
  }
}

// With unequal stages, an order made for their costs is shorter than an order for equal stages.
TEST(GreedyCostsTest, UnevenStagesWantTheirOwnOrder) {
  const GreedySchedule drawn{
      "schedule s(P, M) { stages 2 * P on wave; rank r greedy { prefer B, F; ", 3, 6, 6};
  const std::string uneven =
      "costs F s -> s == 2 * P - 1 ? 6 : 2, B s -> s == 2 * P - 1 ? 9 : 4, "
      "p2p 1;";
  const std::optional<Plan> blind = GreedyPlan(drawn, ""), told = GreedyPlan(drawn, uneven);
  const CostModel costs = GreedyCostModel(*told);
  const auto makespan = [&costs](const Plan& plan) {
    return MeasureBubbles(*Simulate(Lower(plan), costs)).makespan_ns;
  };
  EXPECT_LT(makespan(*told), makespan(*blind));
}

}  // namespace
}  // namespace stringline
