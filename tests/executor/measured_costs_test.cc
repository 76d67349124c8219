// The costs of a run's actions: those of hand-made times, and of the right steps of a run.
#include "executor/training/measured_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

TEST(MeasuredCosts, AreByKindAndStage) {
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

// A step in which every event, and the parts of each, have other durations, which grow along it.
Timeline DrawnStep(const Plan& plan, int disturbed, std::mt19937* random) {
  Timeline timeline = TimelineOf(plan, "measured");
  for (uint32_t e = 0; e < timeline.events.size(); ++e) {
    Event& event = timeline.events[e];
    const auto draw = [&] {
      const int64_t ns =
          1000 * (event.microbatch.value + 1) + static_cast<int64_t>((*random)() % 700);
      return disturbed * ns;
    };
    event.start_ns = 50;
    event.end_ns = 50 + draw();
    if (event.kind != ActionKind::kForward) continue;
    int64_t now_ns = 70;
    const auto add = [&](Part part, int layer, int64_t ns) {
      timeline.parts.push_back({e, part, layer, now_ns, now_ns + ns});
      now_ns += ns;
    };
    // Parts that take no time are not in a timeline.
    for (const int layer : {0, 1}) {
      add(kFAttn, layer, (layer + 1) * draw());
      if ((*random)() % 4 == 0) add(kFDispatch, layer, draw());
    }
  }
  return timeline;
}

// The typical steps: those without the shortest and the longest quarter.
std::vector<Timeline> TypicalOf(std::vector<Timeline> steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const Timeline& x, const Timeline& y) {
    return MeasureBubbles(x).makespan_ns < MeasureBubbles(y).makespan_ns;
  });
  const std::map<size_t, std::pair<size_t, size_t>> kept = {
      {1, {0, 1}}, {2, {0, 2}}, {3, {1, 2}}, {5, {1, 4}}, {8, {2, 6}}};
  const auto [first, last] = kept.at(steps.size());
  return {steps.begin() + static_cast<int64_t>(first), steps.begin() + static_cast<int64_t>(last)};
}

// The mean over the steps of the means over all durations of a step's actions of the kind and
// stage, or of their parts, which lie one after the other.
double ExpectedOf(const std::vector<Timeline>& steps, ActionKind kind, size_t stage,
                  std::optional<Part> part = std::nullopt) {
  double sum = 0;
  for (const Timeline& step : steps) {
    double of_step = 0;
    int count = 0;
    const auto is_of = [&](const Event& event) {
      return event.kind == kind && event.stage.value == static_cast<int>(stage);
    };
    if (part) {
      for (const PartEvent& one : step.parts) {
        if (one.part != *part || !is_of(step.events[one.event])) continue;
        of_step += static_cast<double>(one.end_ns - one.start_ns);
        ++count;
      }
    } else {
      for (const Event& event : step.events) {
        if (!is_of(event)) continue;
        of_step += static_cast<double>(event.end_ns - event.start_ns);
        ++count;
      }
    }
    sum += count == 0 ? 0 : of_step / count;
  }
  return sum / static_cast<double>(steps.size());
}

// From the mean deviation of parts of F in a step from the mean of their kind and stage.
double ExpectedJitterOf(const std::vector<Timeline>& steps) {
  double jitter = 0;
  for (const Timeline& step : steps) {
    double deviation = 0, sum = 0;
    for (const PartEvent& part : step.parts) {
      const auto stage = static_cast<size_t>(step.events[part.event].stage.value);
      const auto ns = static_cast<double>(part.end_ns - part.start_ns);
      deviation += std::abs(
          ns - ExpectedOf({step}, ActionKind::kForward, stage, static_cast<Part>(part.part)));
      sum += ns;
    }
    jitter += deviation / sum / std::sqrt(2 / std::acos(-1.0));
  }
  return jitter / static_cast<double>(steps.size());
}

TEST(MeasuredCosts, AreMeansOverTypicalSteps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const Plan plan = LibraryPlan("1f1b", 2, 6).value();
  for (const int count : {1, 2, 3, 5, 8}) {
    std::vector<Timeline> steps;
    MeasuredCosts costs(plan);
    for (int s = 0; s < count; ++s) costs.Add(steps.emplace_back(DrawnStep(plan, 1, &random)));
    const CostModel model = costs.Model();
    const std::vector<Timeline> typical = TypicalOf(steps);
    EXPECT_NEAR(static_cast<double>(model.part_jitter) * 1e-6, ExpectedJitterOf(typical), 1e-3);
    for (size_t stage = 0; stage < 2; ++stage) {
      SCOPED_TRACE(absl::StrCat(count, " steps, stage ", stage));
      const auto expect = [&](int64_t ns, double expected) {
        // Means are cut to whole nanoseconds, of a step and of all.
        EXPECT_NEAR(static_cast<double>(ns), expected, 2);
      };
      expect(model.forward[stage], ExpectedOf(typical, ActionKind::kForward, stage));
      expect(model.backward[stage], ExpectedOf(typical, ActionKind::kBackward, stage));
      for (const Part part : {kFAttn, kFDispatch}) {
        expect(model.parts[stage].ns[part], ExpectedOf(typical, ActionKind::kForward, stage, part));
      }
    }
  }
}

// Nine steps that are alike, and one that took ten times as long, whichever it is.
TEST(MeasuredCosts, AStepThatWasDisturbedDoesNotMoveThem) {
  const Plan plan = LibraryPlan("1f1b", 2, 6).value();
  const auto model = [&](int disturbed) {
    MeasuredCosts costs(plan);
    for (int step = 0; step < 10; ++step) {
      std::mt19937 same(7);
      costs.Add(DrawnStep(plan, step == disturbed ? 10 : 1, &same));
    }
    return costs.Model();
  };
  const CostModel calm = model(-1);
  for (const int disturbed : {0, 4, 9}) {
    const CostModel found = model(disturbed);
    EXPECT_EQ(found.forward, calm.forward);
    EXPECT_EQ(found.backward, calm.backward);
    EXPECT_EQ(found.hop, calm.hop);
    for (size_t stage = 0; stage < 2; ++stage) {
      EXPECT_EQ(found.parts[stage].ns, calm.parts[stage].ns);
    }
  }
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
    std::vector<int64_t> makespans_ns;
    Timeline last;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
      last = trainer.Measured();
      if (step.step < row.first || step.step > row.last) return absl::OkStatus();
      want.Add(last);
      makespans_ns.push_back(MeasureBubbles(last).makespan_ns);
      return absl::OkStatus();
    };
    const auto result = Train(config, plan, Corpus(), hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(AllOf(result->costs), AllOf(want.Model())) << row.steps;
    EXPECT_EQ(result->makespans_ns, makespans_ns) << row.steps;
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
  ASSERT_EQ(linked.activation_hops.size(), 1u);  // by edge
  ASSERT_EQ(linked.gradient_hops.size(), 1u);
  for (const auto* hops : {&linked.activation_hops, &linked.gradient_hops}) {
    EXPECT_EQ((*hops)[0].latency_ns, 0);
    EXPECT_EQ((*hops)[0].transfer_ns, 4300);
  }
}

}  // namespace
}  // namespace stringline
