// A run's hooks, and how a run ends early.
#include "executor/train.h"

#include <cmath>

#include "executor/trainer.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"

namespace stringline {
namespace {

struct Sums {
  double params = 0;
  double grads = 0;
};

Sums SumsOf(Trainer& trainer) {
  Sums sums;
  for (size_t s = 0; s < trainer.programs().size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
      for (const float x : trainer.param(stage, static_cast<int>(p))) sums.params += std::fabs(x);
      for (const float x : trainer.grad(stage, static_cast<int>(p))) sums.grads += std::fabs(x);
    }
  }
  return sums;
}

TEST(Train, HooksSeeEveryStep) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  std::vector<std::string> calls;
  Sums before;
  std::vector<double> losses;
  TrainHooks hooks;
  hooks.gradients = [&](int64_t step, Trainer& trainer) {
    calls.push_back("gradients " + std::to_string(step));
    before = SumsOf(trainer);
    EXPECT_GT(before.grads, 0);
  };
  hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
    calls.push_back("after " + std::to_string(step.step));
    losses.push_back(step.loss_nats);
    EXPECT_GT(step.grad_norm, 0);
    EXPECT_EQ(step.learning_rate, LearningRate(SmallRun(3), step.step - 1));
    const Sums after = SumsOf(trainer);
    EXPECT_EQ(after.grads, 0);
    EXPECT_NE(after.params, before.params);
    return absl::OkStatus();
  };
  hooks.stop = [&] {
    calls.push_back("stop?");
    return false;
  };
  const auto result = Train(SmallRun(3), plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(calls, (std::vector<std::string>{"gradients 1", "after 1", "stop?", "gradients 2",
                                             "after 2", "stop?", "gradients 3", "after 3"}));
  EXPECT_EQ(losses, result->losses_nats);
  EXPECT_FALSE(result->stopped);
}

TEST(Train, StopsAfterTheStepThatIsUnderWay) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const auto whole = Train(SmallRun(5), plan, Corpus(), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  int64_t steps = 0;
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    steps = step.step;
    return absl::OkStatus();
  };
  hooks.stop = [&] { return steps == 2; };
  const auto result = Train(SmallRun(5), plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->stopped);
  EXPECT_EQ(result->steps, 2);
  EXPECT_EQ(result->losses_nats,
            std::vector<double>(whole->losses_nats.begin(), whole->losses_nats.begin() + 2));
  EXPECT_TRUE(result->measured.events.empty());
}

TEST(Train, AnErrorAfterAStepEndsTheRun) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  int64_t steps = 0;
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep&, Trainer&) {
    return ++steps < 2 ? absl::OkStatus() : absl::UnavailableError("the disk is full");
  };
  EXPECT_EQ(Train(SmallRun(5), plan, Corpus(), hooks).status(),
            absl::UnavailableError("the disk is full"));
  EXPECT_EQ(steps, 2);
}

}  // namespace
}  // namespace stringline
