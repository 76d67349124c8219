// Greedy orders made for costs that differ by stage, and for messages that take time: how they are
// said, and that the order is what the simulator says of those very costs.
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/orders/greedy.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/uses.h"
#include "tests/schedlang/elaborated.h"

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
  EXPECT_EQ(CostsLineOf("costs F 3;"), "costs F=3 B=2 I=1 W=1");
  EXPECT_EQ(CostsLineOf("costs F s -> s == P - 1 ? 5 : M, B [1, M, 3], p2p 1 + 2"),
            "costs F=[2,2,5] B=[1,2,3] I=1 W=1 p2p=3");
  EXPECT_EQ(CostsLineOf("costs p2p 0, W v -> v + 1"), "costs F=1 B=2 I=1 W=[1,2,3]");
  // With pipes, a stage is counted in its pipe.
  EXPECT_EQ(CostsLineOf("costs F s -> s + 1", kPipes), "costs F=[1,2,3] B=2 I=1 W=1");

  EXPECT_EQ(CostsLineOf("costs F [1, 2]"),
            "x.sched:1:73: error: costs of 2 stages, but there are 3");
  EXPECT_EQ(CostsLineOf("costs F [1]", kPipes),
            "x.sched:1:158: error: costs of 1 stage, but every pipe has 3");
  EXPECT_EQ(CostsLineOf("costs F s -> s"),
            "x.sched:1:80: error: a cost of 0, with s = 0; costs are 1 .. 1000000000");
  EXPECT_EQ(CostsLineOf("costs p2p 0 - M"),
            "x.sched:1:77: error: a cost of -2, with M = 2; costs of messages are 0 .. 1000000000");
  EXPECT_EQ(CostsLineOf("costs p2p s -> s"),
            "x.sched:1:73: error: 'p2p' is one cost, of every message between two ranks");
  EXPECT_EQ(CostsLineOf("costs p2p 1, p2p 2"), "x.sched:1:80: error: a second 'p2p'");
  EXPECT_EQ(CostsLineOf("costs F 1, F 2"), "x.sched:1:78: error: 'F' is named a second time");
  EXPECT_EQ(CostsLineOf("costs F r + 1"),
            "x.sched:1:67: error: the costs are not the same on all ranks");
  EXPECT_EQ(
      CostsLineOf("costs q2q 1"),
      "x.sched:1:73: error: expected an action, 'p2p', 'saved_for_I', 'saved_for_W' or 'stash' "
      "before 'q2q'");
  EXPECT_EQ(CostsLineOf("costs F F -> 1"),
            "x.sched:1:75: error: 'F' is an action and names nothing else");
}

// A random greedy schedule: its stages and rules, with the costs left out.
struct GreedySchedule {
  std::string begin;  // up to the costs
  int ranks = 0;
  int stages = 0;  // of a pipe
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
  const char* const kPrefer[] = {"B, F", "F, B", "I, F, W", "I, W, F", "W, I, F", "B, I, W, F"};
  // Rules that hold back may leave a rank without an end; what they do is tested elsewhere.
  drawn.begin =
      absl::StrCat("schedule s(P, M) { ", placed, "rank r greedy { prefer ", kPrefer[pick(6)], "; ",
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
      lists[k]->push_back(plan.costs.of(static_cast<ActionKind>(k), static_cast<int>(s) - first));
    }
  }
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
    // The order once more from the costs that the plan keeps, with what it expects.
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
        const size_t kind = absl::string_view("FBIW").find(c);
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
    const auto timeline = Simulate(lowered, GreedyCostModel(*plan));
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    ASSERT_EQ(MeasureBubbles(*timeline).makespan_ns, order.makespan) << text;
  }
}

// Said for each stage, costs that are all the same are those said once; and without any, messages
// take no time.
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
    EXPECT_EQ(orders_of(GreedyPlan(drawn, absl::StrCat("costs F ", f, ", B ", b))),
              orders_of(GreedyPlan(
                  drawn, absl::StrCat("costs F s -> ", f, ", B s -> s * 0 + ", b, ", p2p 0"))));
    EXPECT_EQ(orders_of(GreedyPlan(drawn, "")),
              orders_of(GreedyPlan(drawn, "costs F 1, B 2, I 1, W 1")));
  }
}

// An order made for what stages take is shorter than one made for equal stages, where they differ.
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
