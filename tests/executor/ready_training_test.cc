// Ready order on CPUs: trainings have the bits of the order of the lists, whatever happens first,
// and rehearsals are performed as the simulator says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/rehearsal/rehearsal.h"
#include "executor/rehearsal/strict.h"
#include "executor/training/trainer.h"
#include "schedlang/check/check.h"
#include "schedlang/plan/ready.h"
#include "schedlang/report/analysis.h"
#include "stages/layers.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"
#include "tests/executor/tiny_training.h"
#include "tests/schedlang/ready_plans.h"

namespace stringline {
namespace {

using testing::HasSubstr;

constexpr int kReadyLayers = 8, kReadySteps = 3;

// The library's schedule with a window; 0: none.
Plan PlanWithWindow(const std::string& name, int window, int slack) {
  const auto lowered = LibraryPlan(name, 4, 8);
  SL_CHECK(lowered.has_value()) << name;
  Plan plan = InListOrder(*lowered);
  plan.window = window;
  plan.slack = slack;
  return Lower(plan);
}

absl::StatusOr<std::unique_ptr<Trainer>> ReadyTrainerOf(TinyFamily family, const Plan& plan,
                                                        int threads) {
  const auto stages = static_cast<int>(plan.stages.size());
  auto programs =
      BuildModelStages(TinyModel(family, kReadyLayers), *SplitEven(kReadyLayers, stages), {});
  SL_CHECK(programs.ok()) << programs.status();
  return Trainer::Make(plan, *std::move(programs), {.seed = 3, .threads = threads});
}

TinyTraining TrainReady(TinyFamily family, const Plan& plan, int threads) {
  auto made = ReadyTrainerOf(family, plan, threads);
  SL_CHECK(made.ok()) << made.status();
  Trainer& trainer = **made;
  std::mt19937 random(5);
  TinyTraining trained;
  for (int step = 0; step < kReadySteps; ++step) {
    for (int32_t m = 0; m < trainer.microbatches(); ++m) {
      for (const auto& data : {trainer.tokens(MicrobatchId(m)), trainer.targets(MicrobatchId(m))}) {
        for (int32_t& token : data) token = static_cast<int32_t>(random() % kTinyVocabulary);
      }
    }
    AddStep(&trainer, /*keeps_grads=*/true, &trained);
  }
  ExpectPlannedBytes(trainer);
  return trained;
}

TEST(ReadyTraining, HasTheBitsOfTheListedOrder) {
  for (const TinyFamily family : {TinyFamily::kGpt, TinyFamily::kLlama}) {
    for (const char* const name : {"1f1b", "zb_h1", "interleaved", "gpipe"}) {
      const TinyTraining listed = TrainReady(family, PlanWithWindow(name, 0, 0), 1);
      for (const auto& [window, slack, threads] :
           {std::tuple(1, 0, 1), std::tuple(4, 1, 2), std::tuple(32, 4, 4), std::tuple(8, 0, 3)}) {
        const Plan plan = PlanWithWindow(name, window, slack);
        EXPECT_EQ(TrainReady(family, plan, threads), listed)
            << name << " window " << window << " slack " << slack;
      }
    }
  }
}

// Latencies only: the channels of stages do not share what ranks' channels would.
TEST(ReadyRehearsal, HappensAsTheSimulatorSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int ahead = 0;
  for (int n = 0; n < 600; ++n) {
    const Plan plan = RandomReadyPlan(random, 50, false);
    const Plan lowered = Lower(plan);
    CostModel costs = *ResolveCosts(UnitCosts(), lowered);
    for (auto* const of :
         {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient}) {
      for (int64_t& ns : *of) ns = 1 + static_cast<int64_t>(random() % 1'000'000'007);
    }
    costs.hop = static_cast<int64_t>(random() % 1'000'003);
    const auto rehearsal =
        Rehearse(lowered, costs, {.steps = 2, .threads = 1 + n % 3, .time = DeviceTime::kJumps});
    ASSERT_TRUE(rehearsal.ok()) << rehearsal.status() << Print(plan);
    const auto told = [](Timeline timeline) {
      timeline.observed.clear();
      timeline.observed_parts.clear();
      timeline.origin = "simulated";
      return Print(timeline);
    };
    ASSERT_EQ(told(rehearsal->measured), told(rehearsal->simulated)) << Print(plan);
    const std::optional<Plan> performed = PlanOf(rehearsal->measured);
    ASSERT_TRUE(performed.has_value());
    ahead += Print(InListOrder(*performed)) != Print(InListOrder(plan)) ? 1 : 0;
  }
  EXPECT_GT(ahead, 30);  // in many the order is not that of the lists
}

TEST(ReadyTraining, WhatCannotPerformItSaysSo) {
  const Plan plan = PlanWithWindow("1f1b", 4, 0);
  EXPECT_THAT(std::string(RunStrict(plan).message()), HasSubstr("the schedule has a window"));
  const auto experts = ReadyTrainerOf(TinyFamily::kMoe, plan, 1);
  ASSERT_FALSE(experts.ok());
  EXPECT_THAT(std::string(experts.status().message()), HasSubstr("stages in parts"));
}

}  // namespace
}  // namespace stringline
