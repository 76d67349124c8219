// Runs of a model with dropout: their masks are those of their samples, no schedule, cut or
// recomputation changes a bit of the losses, and an evaluation drops nothing. checkpoint_test has
// resumed ones.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "executor/run/train.h"
#include "executor/training/reference.h"
#include "executor/training/trainer.h"
#include "schedlang/orders/only_forwards.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"
#include "tests/executor/tiny_training.h"

namespace stringline {
namespace {

constexpr int kLayers = 8, kMicrobatches = 8;
constexpr int64_t kSteps = 4;

RunConfig DroppingRun() {
  RunConfig config = SmallRun(kSteps);
  config.shape = TinyModel(TinyFamily::kDropout, kLayers);
  config.seed = 5 + (uint64_t{1} << 40);
  config.clip_norm = 0;  // for plans of several steps
  return config;
}

std::vector<double> LossesOf(const RunConfig& config, const std::optional<Plan>& plan) {
  SL_CHECK(plan.has_value());
  TrainHooks hooks;
  hooks.end = [](int64_t, Trainer& trainer) {
    ExpectPlannedBytes(trainer);
    return absl::OkStatus();
  };
  const auto result = Train(config, WithSums(*plan, config.mesh), Corpus(), hooks);
  SL_CHECK(result.ok()) << result.status();
  return result->losses_nats;
}

TEST(DropoutTraining, NoScheduleChangesABit) {
  const std::vector<double> wanted =
      LossesOf(DroppingRun(), LibraryPlan("gpipe", 1, kMicrobatches));
  ASSERT_EQ(wanted.size(), static_cast<size_t>(kSteps));
  for (const auto& [schedule, ranks] :
       {std::pair("1f1b", 2), {"1f1b", 8}, {"zb_h1", 4}, {"zb_v", 4}, {"dualpipe_v", 2}}) {
    EXPECT_EQ(LossesOf(DroppingRun(), LibraryPlan(schedule, ranks, kMicrobatches)), wanted)
        << schedule << " " << ranks;
  }
  RunConfig cut = DroppingRun();
  cut.layers_per_stage = {0, 5, 3, 0};
  EXPECT_EQ(LossesOf(cut, LibraryPlan("1f1b", 4, kMicrobatches)), wanted);
  // Several steps in one plan: each has the samples of its own.
  EXPECT_EQ(
      LossesOf(DroppingRun(), LibraryPlan("zb_h1", 2, kMicrobatches, CommLayout::kEdge, 0, 2)),
      wanted);
}

TEST(DropoutTraining, NoRecomputationChangesABit) {
  const std::vector<double> wanted = LossesOf(DroppingRun(), LibraryPlan("1f1b", 2, kMicrobatches));
  for (const char* const schedule : {"1f1b", "zb_h1"}) {
    for (const bool for_weights : {false, true}) {
      RunConfig config = DroppingRun();
      config.recompute = {.what = Recompute::kAll, .for_weights = for_weights};
      EXPECT_EQ(LossesOf(config, LibraryPlan(schedule, 2, kMicrobatches)), wanted) << schedule;
    }
    // By R, and with copies to the host.
    EXPECT_EQ(LossesOf(DroppingRun(), ChangedPlan(schedule, 2, kMicrobatches, true, true)), wanted)
        << schedule;
  }
}

// The copies of a pipeline have the samples that one pipeline has, in another order of additions of
// gradients.
TEST(DropoutTraining, CopiesHaveTheMasksOfOne) {
  const std::vector<double> wanted = LossesOf(DroppingRun(), LibraryPlan("1f1b", 2, kMicrobatches));
  RunConfig config = DroppingRun();
  config.mesh = {.data = 2};
  const std::vector<double> copies = LossesOf(config, LibraryPlan("1f1b", 2, kMicrobatches / 2));
  EXPECT_EQ(copies[0], wanted[0]);
  for (size_t i = 1; i < wanted.size(); ++i) EXPECT_NEAR(copies[i], wanted[i], 1e-5);
}

// Samples are counted over all steps. Without a learning rate the parameters stay as they are.
TEST(DropoutTraining, HasTheMasksOfItsSamples) {
  RunConfig config = DroppingRun();
  config.optimizer.learning_rate = 0;
  const auto whole = BuildModelStages(config.shape, {kLayers});
  ASSERT_TRUE(whole.ok()) << whole.status();
  Reference reference(whole->front(), config.seed);
  int64_t steps = 0;
  TrainHooks hooks;
  hooks.gradients = [&](int64_t step, Trainer& trainer) {
    double sum = 0;
    uint64_t first = (step - 1) * kMicrobatches * config.shape.microbatch();
    for (int32_t m = 0; m < kMicrobatches; ++m, first += config.shape.microbatch()) {
      const MicrobatchId microbatch(m);
      sum += reference.RunMicrobatch(trainer.tokens(microbatch), trainer.targets(microbatch), {},
                                     {config.seed, first});
    }
    EXPECT_EQ(trainer.loss_sum(), sum) << step;
    ++steps;
  };
  const auto plan = LibraryPlan("1f1b", 2, kMicrobatches);
  const auto result = Train(config, *plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(steps, kSteps);
}

TEST(DropoutTraining, EvaluationsDropNothing) {
  const auto plan = LibraryPlan("1f1b", 2, kMicrobatches);
  const std::string text = Corpus();
  double losses[2];
  for (const bool drops : {false, true}) {
    RunConfig config = DroppingRun();
    config.shape = WithDropout(kLayers, 256, 2, drops);
    config.evaluate.alone = true;
    const EvaluationOfRun evaluation = {Lower(OnlyForwards(*plan)), text};
    const auto evaluated = Evaluate(config, *plan, {}, nullptr, evaluation);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    losses[drops] = evaluated->loss_nats;
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace stringline
