// The costs of a run's actions: the means of hand-made times, and of the right steps of a run.
#include "executor/training/measured_costs.h"

#include "executor/rehearsal/rehearsal.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/costs/costs.h"
#include "schedlang/sim/simulate.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"

namespace stringline {
namespace {

using Costs = std::vector<int64_t>;

// Gives the events named "2F1" or "2SEND_F1" these durations; all others take 1000 s.
void SetDurations(const Plan& plan, const std::vector<std::pair<std::string, int64_t>>& durations,
                  Timeline* timeline) {
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    timeline->events[i].start_ns = 100;
    timeline->events[i].end_ns = 1'000'000'000'000;
    for (const auto& [name, ns] : durations) {
      if (Print(plan, plan.actions[i]) == name) timeline->events[i].end_ns = 100 + ns;
    }
  }
}

TEST(MeasuredCosts, AreMeansByKindAndStage) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=2\n"
      "stages 0 1\n"
      "rank 0: 0F0 0F1 0B0 0I1 0W1\n"
      "rank 1: 1F0 1B0 1F1 1I1 1W1\n");
  Timeline timeline = TimelineOf(plan, "measured");
  SetDurations(plan,
               {{"0F0", 10},
                {"0F1", 30},
                {"0B0", 50},
                {"0I1", 34},
                {"0W1", 12},
                {"1F0", 7},
                {"1F1", 9},
                {"1B0", 21},
                {"1I1", 15},
                {"1W1", 5},
                {"0SEND_F0", 4},
                {"0SEND_F1", 8},
                {"1SEND_B0", 16},
                {"1SEND_B1", 20}},
               &timeline);
  MeasuredCosts costs(plan);
  costs.Add(timeline);
  CostModel model = costs.Model();
  EXPECT_EQ(model.forward, (Costs{20, 8}));
  EXPECT_EQ(model.backward, (Costs{50, 21}));
  EXPECT_EQ(model.input_gradient, (Costs{34, 15}));
  EXPECT_EQ(model.weight_gradient, (Costs{12, 5}));
  EXPECT_EQ(model.hop, 12);
  EXPECT_TRUE(model.activation_hops.empty());
  EXPECT_TRUE(model.forward_backward.empty());
  // A second step has the same weight as the first.
  for (Event& event : timeline.events) event.end_ns += 6;
  costs.Add(timeline);
  model = costs.Model();
  EXPECT_EQ(model.forward, (Costs{23, 11}));
  EXPECT_EQ(model.backward, (Costs{53, 24}));
  EXPECT_EQ(model.hop, 15);
}

TEST(MeasuredCosts, AGroupIsOneDurationOfItsForwardsStage) {
  const Plan plan = LoweredFrom(
      "plan v P=1 M=2\n"
      "stages 0\n"
      "rank 0: 0F0 0F1&0B0 0B1\n");
  Timeline timeline = TimelineOf(plan, "measured");
  SetDurations(plan, {{"0F0", 10}, {"0F1", 25}, {"0B0", 25}, {"0B1", 18}}, &timeline);
  MeasuredCosts costs(plan);
  costs.Add(timeline);
  const CostModel model = costs.Model();
  EXPECT_EQ(model.forward, Costs{10});
  EXPECT_EQ(model.backward, Costs{18});
  EXPECT_EQ(model.forward_backward, Costs{25});
}

std::vector<Costs> AllOf(const CostModel& costs) {
  return {costs.forward,         costs.backward,         costs.input_gradient,
          costs.weight_gradient, costs.forward_backward, {costs.hop}};
}

std::vector<std::pair<int64_t, int64_t>> TimesOf(const Timeline& timeline) {
  std::vector<std::pair<int64_t, int64_t>> times;
  for (const Event& event : timeline.events) times.emplace_back(event.start_ns, event.end_ns);
  return times;
}

// The first step warms up, the last is predicted from the twenty before it; a run of one or two
// steps has no other steps to measure.
TEST(MeasuredCosts, OfARunComeFromTheStepsBeforeItsLast) {
  const Plan plan = LibraryPlan("dualpipe_v", 2, 4).value();
  struct Row {
    int64_t steps, first, last;
  };
  for (const Row& row : {Row{1, 1, 1}, Row{2, 1, 2}, Row{3, 2, 2}, Row{5, 2, 4}, Row{25, 5, 24}}) {
    RunConfig config = SmallRun(row.steps);
    config.layers_per_stage = {2, 2, 2, 2};
    MeasuredCosts want(plan);
    double makespans_ns = 0;
    Timeline last;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
      last = trainer.Measured();
      if (step.step < row.first || step.step > row.last) return absl::OkStatus();
      want.Add(last);
      makespans_ns += static_cast<double>(MeasureBubbles(last).makespan_ns);
      return absl::OkStatus();
    };
    const auto result = Train(config, plan, Corpus(), hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto count = static_cast<int>(row.last - row.first + 1);
    EXPECT_EQ(result->measured_steps, count) << row.steps;
    EXPECT_EQ(AllOf(result->costs), AllOf(want.Model())) << row.steps;
    EXPECT_DOUBLE_EQ(result->mean_makespan_ns, makespans_ns / count) << row.steps;
    EXPECT_EQ(TimesOf(result->measured), TimesOf(last)) << row.steps;
    const auto simulated = Simulate(plan, result->costs);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    EXPECT_EQ(TimesOf(result->simulated), TimesOf(*simulated)) << row.steps;
    EXPECT_DOUBLE_EQ(result->misprediction,
                     static_cast<double>(MeasureBubbles(*simulated).makespan_ns) /
                             static_cast<double>(MeasureBubbles(last).makespan_ns) -
                         1);
  }
}

// A message over a link takes its latency and transfer, all of it on its channel.
TEST(WithOccupyingHops, AMessageTakesItsLatencyAndItsTransferOnce) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n");
  CostModel costs;
  costs.hop = 700;
  for (const Hop& hop : WithOccupyingHops(plan, costs).activation_hops) {
    EXPECT_EQ(hop.latency_ns, 0);
    EXPECT_EQ(hop.transfer_ns, 700);
  }
  const CostModel linked = WithLink(plan, costs, {/*latency_ns=*/300, /*bytes_per_s=*/1e9}, 4000);
  ASSERT_EQ(linked.activation_hops.size(), 2u);
  ASSERT_EQ(linked.gradient_hops.size(), 2u);
  for (const auto* hops : {&linked.activation_hops, &linked.gradient_hops}) {
    EXPECT_EQ((*hops)[1].latency_ns, 0);
    EXPECT_EQ((*hops)[1].transfer_ns, 4300);
  }
}

}  // namespace
}  // namespace stringline
