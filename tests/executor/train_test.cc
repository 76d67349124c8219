// A run's hooks, and early ends of a run.
#include "executor/run/train.h"

#include <cmath>
#include <limits>

#include "executor/cpu/backend.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/local_ranks.h"
#include "executor/rehearsal/strict.h"
#include "executor/run/build_stages.h"
#include "executor/training/least_memory.h"
#include "executor/training/stages.h"
#include "executor/training/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/no_new_threads.h"

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

// Each rank lists its send behind a receive on which the send does not depend. If messages wait for
// their values alone, the plan ends; NCCL, whose calls queue behind all calls listed before, may
// hang.
constexpr const char* kListedTooLate =
    "plan too_late P=2 M=2 lowered\n"
    "pipe down M=1 stages 0 1\n"
    "pipe up M=1 stages 1 0\n"
    "rank 0: down[0]F0 up[1]RECV_F0 up[1]F0 down[0]SEND_F0 up[1]B0 up[1]SEND_B0 down[0]RECV_B0 "
    "down[0]B0\n"
    "rank 1: up[0]F0 down[1]RECV_F0 down[1]F0 up[0]SEND_F0 down[1]B0 down[1]SEND_B0 up[0]RECV_B0 "
    "up[0]B0\n";

TEST(Train, AnOrderThatHangsInItsLayoutHangsWhenStrict) {
  struct Case {
    const char* plan;
    CommLayout layout;
    bool hangs, hangs_strictly;
  };
  constexpr const char* kBothSendFirst =
      "plan both_send_first P=2 M=2 lowered\n"
      "pipe down M=1 stages 0 1\n"
      "pipe up M=1 stages 1 0\n"
      "rank 0: down[0]F0 down[0]SEND_F0 up[1]RECV_F0 up[1]F0 up[1]B0 up[1]SEND_B0 "
      "down[0]RECV_B0 down[0]B0\n"
      "rank 1: up[0]F0 up[0]SEND_F0 down[1]RECV_F0 down[1]F0 down[1]B0 down[1]SEND_B0 "
      "up[0]RECV_B0 up[0]B0\n";
  for (const Case& c : {Case{kBothSendFirst, CommLayout::kEdge, false, false},
                        Case{kBothSendFirst, CommLayout::kUpDown, false, false},
                        Case{kBothSendFirst, CommLayout::kPair, true, true},
                        Case{kBothSendFirst, CommLayout::kShared, true, true},
                        Case{kListedTooLate, CommLayout::kEdge, false, true}}) {
    const Plan plan = ReduceGradients(PlanFrom(c.plan));
    for (const bool strict : {false, true}) {
      RunConfig config = SmallRun(2);
      config.layout = c.layout;
      config.strict = strict;
      const auto result = Train(config, plan, Corpus(), {});
      const bool hangs = strict ? c.hangs_strictly : c.hangs;
      EXPECT_EQ(result.status().code(), hangs ? absl::StatusCode::kAborted : absl::StatusCode::kOk)
          << plan.schedule << " in layout " << NameOf(c.layout) << ": " << result.status();
    }
    EXPECT_EQ(RunStrict(plan, c.layout).ok(), !c.hangs_strictly) << plan.schedule;
  }
}

TEST(Train, AStrictOrderChangesNoBit) {
  for (const char* const schedule : {"zb_v", "interleaved", "dualpipe"}) {
    const auto usual = Train(SmallRun(2), LibraryPlan(schedule, 4, 8).value(), Corpus(), {});
    ASSERT_TRUE(usual.ok()) << usual.status();
    for (const CommLayout layout :
         {CommLayout::kEdge, CommLayout::kPair, CommLayout::kUpDown, CommLayout::kShared}) {
      RunConfig config = SmallRun(2);
      config.layout = layout;
      config.strict = true;
      const auto strict = Train(config, LibraryPlan(schedule, 4, 8, layout).value(), Corpus(), {});
      ASSERT_TRUE(strict.ok()) << strict.status();
      EXPECT_EQ(strict->losses_nats, usual->losses_nats) << schedule << " " << NameOf(layout);
    }
  }
}

// The choice of stages with recompute changes no bit; stages with recompute hold less.
TEST(Train, EveryStageMayRecomputeOrNot) {
  using enum Recompute;
  const auto train = [](std::vector<Recompute> by_stage) {
    RunConfig config = SmallRun(2);
    config.recompute.by_stage = std::move(by_stage);
    return Train(config, LibraryPlan("zb_v", 2, 8).value(), Corpus(), {});
  };
  const auto none = train({});
  ASSERT_TRUE(none.ok()) << none.status();
  const auto some = train({kAll, kNone, kAttn, kNone});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->losses_nats, none->losses_nats);
  EXPECT_THAT(train({kAll, kNone}).status().message(),
              testing::HasSubstr("recompute: 2 values for 4 stages"));

  const Plan plan = LibraryPlan("zb_v", 2, 8).value();
  const auto saved = [&](std::vector<Recompute> by_stage, size_t stage) {
    RunConfig config = SmallRun(2);
    config.recompute.by_stage = std::move(by_stage);
    const auto programs = BuildStages(config, plan);
    SL_CHECK(programs.ok()) << programs.status();
    return SizesOf(plan, *programs)[stage].of_microbatch[StageValue::kSavedForInput];
  };
  EXPECT_LT(saved({kAll, kNone, kNone, kNone}, 0), saved({}, 0));
  EXPECT_EQ(saved({kAll, kNone, kNone, kNone}, 1), saved({}, 1));
}

TEST(Train, WhichMessagesShareACommunicatorChangesNoBit) {
  for (const char* const schedule : {"zb_v", "interleaved", "dualpipe"}) {
    const auto edge = Train(SmallRun(2), LibraryPlan(schedule, 4, 8).value(), Corpus(), {});
    ASSERT_TRUE(edge.ok()) << edge.status();
    for (const CommLayout layout : {CommLayout::kPair, CommLayout::kUpDown, CommLayout::kShared}) {
      RunConfig config = SmallRun(2);
      config.layout = layout;
      const Plan plan = LibraryPlan(schedule, 4, 8, layout).value();
      const auto result = Train(config, plan, Corpus(), {});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->losses_nats, edge->losses_nats) << schedule << " " << NameOf(layout);
      EXPECT_EQ(result->measured.layout, layout);
      EXPECT_EQ(result->simulated.layout, layout);
    }
  }
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

// Not finite: the gradient of parameter 3 of stage 1, then also an earlier one.
TEST(Train, AGradientThatIsNotFiniteIsNamed) {
  struct Bad {
    int stage;
    int param;
    float value;
  };
  const Bad bads[] = {{1, 3, std::numeric_limits<float>::infinity()},
                      {1, 4, std::numeric_limits<float>::quiet_NaN()},
                      {0, 5, std::numeric_limits<float>::quiet_NaN()}};
  struct Case {
    int bads;
    const char* says;
  };
  const Case cases[] = {
      {1,
       "step 2: the gradient of layers.4.attention.qkv.bias (stage 1) is not finite (inf); try "
       "a lower learning rate"},
      {3,
       "step 2: the gradient of layers.0.attention.qkv.bias (stage 0) is not finite (nan); try "
       "a lower learning rate"}};
  for (const char* const schedule : {"1f1b", "dualpipe"}) {
    const Plan plan = LibraryPlan(schedule, 2, 4).value();
    for (const Case& one : cases) {
      double before = 0, after = 0;
      int64_t steps = 0;
      TrainHooks hooks;
      hooks.gradients = [&](int64_t step, Trainer& trainer) {
        if (step != 2) return;
        before = SumsOf(trainer).params;
        for (int i = 0; i < one.bads; ++i) {
          trainer.grad(StageId(bads[i].stage), bads[i].param)[7] = bads[i].value;
        }
      };
      hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
        steps = step.step;
        after = SumsOf(trainer).params;
        return absl::OkStatus();
      };
      const absl::Status status = Train(SmallRun(4), plan, Corpus(), hooks).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << schedule;
      EXPECT_EQ(status.message(), one.says) << schedule;
      EXPECT_EQ(steps, 1);
      EXPECT_EQ(after, before);
    }
  }
}

// Models up to the largest possible in a run file: a message, at once, before any memory is taken.
TEST(Train, MemoryThatIsNotThereIsSaid) {
  struct Shape {
    int layers, width, context, microbatch;
    const char* says;
  };
  const Shape shapes[] = {
      {96, 1 << 14, 16, 1, "fewer model.layers or a smaller model.width would help"},
      {256, 1 << 10, 1 << 10, 512, "a smaller data.microbatch or model.context"},
      {1 << 20, 1 << 20, 1, 1, "fewer model.layers or a smaller model.width would help"},
      {1 << 20, 16, 1 << 10, 1 << 10, "a smaller data.microbatch or model.context"},
      {1 << 20, 1 << 10, 1 << 18, 1, "a smaller data.microbatch or model.context"},
  };
  for (const Shape& shape : shapes) {
    RunConfig config = SmallRun(1);
    GptOf(config).layers = shape.layers;
    GptOf(config).width = shape.width;
    GptOf(config).context = shape.context;
    GptOf(config).microbatch = shape.microbatch;
    const Plan plan = LibraryPlan("gpipe", 4, 8).value();
    const absl::Status status =
        Train(config, plan, std::string(shape.context + 1, 'a'), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    for (const char* const says : {"this run needs ", " GB are available (", shape.says}) {
      EXPECT_NE(status.message().find(says), absl::string_view::npos) << says << "\n" << status;
    }
  }
}

// The lower bound on memory is at most the memory of any plan, and its parameters are exact.
TEST(Train, TheLeastMemoryIsKnownBeforehand) {
  RunConfig config = SmallRun(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    config.shape.dtype = dtype;
    const Plan plan = LibraryPlan("1f1b", 4, 8).value();
    const auto least = LeastMemory(config.shape, 1);
    const auto programs = BuildStages(config, plan);
    ASSERT_TRUE(least.ok() && programs.ok());
    const LocalRanks local(Mesh(), plan.ranks());
    const auto stages = Stages::Place(plan, *programs, CpuKernels(), local.Of(0));
    ASSERT_TRUE(stages.ok()) << stages.status();
    const NeededMemory needed = (*stages)->needed(local.Of(0));
    EXPECT_EQ(least->params, needed.params);
    EXPECT_GT(least->activations, 0);
    EXPECT_LE(least->activations, needed.activations);
  }
  // A model whose memory is mostly graph.
  GptShape thin = GptOf(config);
  thin.layers = 1 << 20;
  EXPECT_GT(LeastMemory(thin, 1)->graphs, 1e10);
  EXPECT_EQ(CheckMemory({.graphs = LeastMemory(thin, 1)->graphs}, {1 << 30, "this test"}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Train, ThreadsThatAreNotThereAreSaid) {
  RunConfig config = SmallRun(1);
  config.threads = 1024;
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  absl::Status status;
  {
    const NoNewThreads none;
    status = Train(config, plan, Corpus(), {}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "1023 threads are wanted, but the system started only 0 (Resource temporarily "
            "unavailable); fewer train.threads in the run file would help");
}

}  // namespace
}  // namespace stringline
