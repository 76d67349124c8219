// Whole runs on the CUDA backend beside the stand-in: their steps captured and replayed.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/orders/only_forwards.h"
#include "tests/cuda/run_numbers.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

constexpr int64_t kSteps = 5;

// The results of a run: all numbers that must not depend on capture.
struct SeenRun {
  TrainResult result;
  std::vector<double> norms;
  ParamValues params;
};

RunConfig ConfigOf(TinyFamily family, const Plan& plan, bool capture) {
  RunConfig config;
  config.shape = TinyModel(family, static_cast<int>(plan.stages.size()));
  if (!plan.pipes.empty()) config.shape = TinyModel(family, plan.pipes[0].stages);
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.steps = kSteps * plan.steps;
  config.optimizer.learning_rate = 1e-2;
  if (HasUpdates(plan)) {
    config.clip_norm = 0;
    if (auto* const decoder = std::get_if<DecoderShape>(&config.shape.family)) {
      decoder->tied = false;
    }
  }
  config.device = DeviceKind::kCuda;
  config.capture = capture;
  return config;
}

// Functions called in the third step, before its gradients or after them.
struct InThird {
  void (*first)() = nullptr;
  void (*before_update)() = nullptr;
};

SeenRun TrainOnStandin(const RunConfig& config, const Plan& plan, const InThird& in_third = {}) {
  standin_reset(1);
  standin_cublas_reset();
  auto backend = CudaBackend::Make({.link = config.link});
  SL_CHECK(backend.ok()) << backend.status();
  SeenRun run;
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    run.norms.push_back(step.grad_norm);
    if (step.step == 2 && in_third.first != nullptr) in_third.first();
    return absl::OkStatus();
  };
  hooks.gradients = [&](int64_t step, Trainer&) {
    if (step == 3 && in_third.before_update != nullptr) in_third.before_update();
  };
  hooks.end = [&](int64_t, Trainer& trainer) {
    run.params = ParamsOf(trainer);
    return absl::OkStatus();
  };
  const std::string text = Corpus();
  auto result = Train(config, plan, TrainingData(text), hooks, *std::move(backend));
  SL_CHECK(result.ok()) << result.status();
  run.result = *std::move(result);
  return run;
}

void ExpectSameNumbers(const SeenRun& seen, const SeenRun& expected) {
  EXPECT_EQ(seen.result.losses_nats, expected.result.losses_nats);
  EXPECT_EQ(seen.result.aux_loss_nats, expected.result.aux_loss_nats);
  EXPECT_EQ(seen.norms, expected.norms);
  EXPECT_TRUE(seen.params == expected.params);
}

// The last step's timeline; the step was replayed.
void ExpectWholeTimeline(const Plan& plan, const Timeline& timeline) {
  ASSERT_EQ(timeline.events.size(), plan.actions.size());
  ExpectWholeTimeline(timeline);
}

// The state is read from the GPU's memory and written back, including the working copies of bf16
// parameters.
TEST(ResumedRun, GoesOnAsIfItHadNeverStopped) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const std::string folder = absl::StrCat(testing::TempDir(), "/cuda-checkpoints-", getpid());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::filesystem::remove_all(folder);
    RunConfig config = ConfigOf(TinyFamily::kLlama, plan, true);
    config.shape.dtype = dtype;
    config.checkpoint = {2, folder, 9};
    const SeenRun straight = TrainOnStandin(config, plan);
    EXPECT_EQ(straight.result.checkpoint, folder + "/step-000004");
    config.resume = folder + "/step-000002";
    config.checkpoint = {};
    const SeenRun resumed = TrainOnStandin(config, plan);
    EXPECT_EQ(resumed.result.losses_nats, straight.result.losses_nats);
    EXPECT_EQ(resumed.norms.size(), 3u);
    EXPECT_TRUE(resumed.params == straight.params);
  }
  std::filesystem::remove_all(folder);
}

class CapturedRun : public testing::TestWithParam<std::string> {};

TEST_P(CapturedRun, GivesEveryNumberOfOneThatIsNot) {
  const std::optional<Plan> plan = LibraryPlan(GetParam(), 2, 4);
  if (!plan) GTEST_SKIP() << "not for 2 ranks";
  for (const TinyFamily family : {TinyFamily::kGpt, TinyFamily::kMoe}) {
    SCOPED_TRACE(NameOf(family));
    const SeenRun issued = TrainOnStandin(ConfigOf(family, *plan, false), *plan);
    const SeenRun captured = TrainOnStandin(ConfigOf(family, *plan, true), *plan);
    ExpectSameNumbers(captured, issued);
    EXPECT_EQ(issued.result.host.captured_steps, 0);
    EXPECT_EQ(issued.result.host.issued_steps, kSteps - 1);
    EXPECT_EQ(captured.result.host.captured_steps, kSteps - 3);
    EXPECT_EQ(captured.result.host.issued_steps, 1);
    EXPECT_GT(captured.result.host.captured_ns, 0);
    EXPECT_EQ(captured.result.not_captured, "");
    ExpectWholeTimeline(*plan, captured.result.measured);
    // The tokens differ from step to step.
    const std::vector<double>& losses = captured.result.losses_nats;
    for (size_t i = 1; i < losses.size(); ++i) EXPECT_NE(losses[i], losses[i - 1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Library, CapturedRun, testing::ValuesIn(TrainedSchedules()),
                         [](const auto& info) { return "S" + info.param; });

// The GPU's losses are the CPU's but for rounding, captured or not.
TEST(EvaluatedRun, HasTheLossesOfTheCpu) {
  const std::string text = Corpus();
  const Plan plan = LibraryPlan("zb_v", 2, 4).value();
  const EvaluationOfRun evaluation = {Lower(OnlyForwards(plan)), TrainingData(text)};
  for (const bool captures : {false, true}) {
    RunConfig config = ConfigOf(TinyFamily::kMoe, plan, captures);
    config.evaluate.every = 2;
    const auto expected = Train(config, plan, TrainingData(text), {}, nullptr, evaluation);
    ASSERT_TRUE(expected.ok()) << expected.status();
    standin_reset(1);
    standin_cublas_reset();
    auto backend = CudaBackend::Make();
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto seen = Train(config, plan, TrainingData(text), {}, *std::move(backend), evaluation);
    ASSERT_TRUE(seen.ok()) << seen.status();
    ASSERT_EQ(seen->evaluations.size(), expected->evaluations.size());
    ASSERT_GE(seen->evaluations.size(), 2u);
    for (size_t k = 0; k < seen->evaluations.size(); ++k) {
      EXPECT_NEAR(seen->evaluations[k].loss_nats, expected->evaluations[k].loss_nats, 1e-4);
    }
  }
}

// Packed sequences have the same losses, too: their kernels read the positions of every step anew.
TEST(PackedRun, HasTheLossesOfTheCpu) {
  const std::string text = Corpus();
  const Documents words = Documents::EndingWith(' ');
  const TrainingData data = TrainingData(text).PackedOf(words);
  const Plan plan = LibraryPlan("zb_v", 2, 4).value();
  for (const TinyFamily family : kTinyFamilies) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(absl::StrCat(NameOf(family), " ", NameOf(dtype)));
      RunConfig config = ConfigOf(family, plan, true);
      config.shape.dtype = dtype;
      config.data.packed.end = ' ';
      const auto expected = Train(config, plan, data, {});
      ASSERT_TRUE(expected.ok()) << expected.status();
      std::vector<double> losses;
      for (const bool captures : {false, true}) {
        config.capture = captures;
        standin_reset(1);
        standin_cublas_reset();
        auto backend = CudaBackend::Make();
        ASSERT_TRUE(backend.ok()) << backend.status();
        const auto seen = Train(config, plan, data, {}, *std::move(backend));
        ASSERT_TRUE(seen.ok()) << seen.status();
        if (!captures) losses = seen->losses_nats;
        EXPECT_EQ(seen->losses_nats, losses);
      }
      for (size_t k = 0; k < losses.size(); ++k) {
        EXPECT_NEAR(losses[k], expected->losses_nats[k], dtype == DType::kF32 ? 1e-4 : 2e-2) << k;
      }
    }
  }
}

// Several steps at once are the same training as steps one after the other, captured or not.
TEST(CapturedSteps, AreStepsOneAfterTheOther) {
  const struct {
    const char* schedule;
    TinyFamily family;
  } cases[] = {{"1f1b_offload", TinyFamily::kGpt}, {"zb_v", TinyFamily::kMoe}};
  for (const auto& [schedule, family] : cases) {
    const Plan one = LibraryPlan(schedule, 2, 4).value();
    const Plan two = LibraryPlan(schedule, 2, 4, CommLayout::kEdge, 0, /*steps=*/2).value();
    RunConfig config = ConfigOf(family, two, true);
    config.steps = 8;
    const SeenRun several = TrainOnStandin(config, two);
    const SeenRun apart = TrainOnStandin(config, one);
    EXPECT_EQ(several.result.host.captured_steps, 1) << schedule;
    EXPECT_EQ(several.result.losses_nats, apart.result.losses_nats) << schedule;
    EXPECT_EQ(several.norms, apart.norms) << schedule;
    EXPECT_TRUE(several.params == apart.params) << schedule;
  }
}

// Any call may refuse the capture: the run goes on and reports the reason.
TEST(CapturedRunRefused, GoesOnAndSaysWhy) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const SeenRun issued = TrainOnStandin(ConfigOf(TinyFamily::kGpt, plan, false), plan);
  const struct {
    InThird in_third;
    const char* says;
  } cases[] = {
      {{.first = [] { standin_fail_call(2, cudaErrorStreamCaptureUnsupported); }},
       "the step cannot be captured: cudaStreamBeginCapture: "},
      {{.first = [] { standin_fail_call(60, cudaErrorStreamCaptureUnsupported); }},
       "the step cannot be captured: "},
      // CUBLAS_STATUS_INTERNAL_ERROR
      {{.first = [] { standin_cublas_fail_call(3, 14); }},
       "the step cannot be captured: the launch of "},
      // Then only the gradients are captured.
      {{.before_update = [] { standin_fail_call(2, cudaErrorStreamCaptureUnsupported); }},
       "the step cannot be captured: cudaStreamBeginCapture: "},
      {{.before_update = [] { standin_fail_call(8, cudaErrorStreamCaptureUnsupported); }},
       "the step cannot be captured: "},
  };
  for (const auto& test : cases) {
    const SeenRun run = TrainOnStandin(ConfigOf(TinyFamily::kGpt, plan, true), plan, test.in_third);
    ExpectSameNumbers(run, issued);
    EXPECT_TRUE(absl::StartsWith(run.result.not_captured, test.says)) << run.result.not_captured;
    EXPECT_EQ(run.result.host.captured_steps, 0);
    EXPECT_EQ(run.result.host.issued_steps, kSteps - 2);  // all but the first and the refused one
    ExpectWholeTimeline(plan, run.result.measured);
  }
}

// A slow wire changes times, but no number; also in a replayed step.
TEST(CapturedRunOnASlowWire, OnlyTakesLonger) {
  const Mesh mesh = {.expert = 2};
  const Plan plan = WithSums(LibraryPlan("dualpipe_v", 2, 4).value(), mesh);
  RunConfig config = ConfigOf(TinyFamily::kMoe, plan, true);
  config.mesh = mesh;
  const SeenRun quick = TrainOnStandin(config, plan);
  config.link = {.latency_ns = 3'000'000, .bytes_per_s = 1e6};
  const SeenRun slow = TrainOnStandin(config, plan);
  ExpectSameNumbers(slow, quick);
  EXPECT_EQ(slow.result.not_captured, "");
  EXPECT_EQ(slow.result.host.captured_steps, kSteps - 3);
  // Four exchanges for each of 4 layers and 4 microbatches.
  EXPECT_GE(slow.result.network.network_ns, 4 * 4 * 4 * config.link.latency_ns);
  EXPECT_LT(quick.result.network.network_ns, config.link.latency_ns);
}

TEST(HostTime, IsDescribed) {
  HostTime host;
  EXPECT_EQ(Describe(host, ""), "");
  EXPECT_EQ(Describe(host, "no"), "not captured: no");
  host.issued_steps = 2;
  host.issued_ns = 824'800;
  EXPECT_EQ(Describe(host, ""), "412 us a step issued");
  EXPECT_EQ(Describe(host, "no"), "412 us a step issued, not captured: no");
  host.captured_steps = 10;
  host.captured_ns = 847'000;
  EXPECT_EQ(Describe(host, ""), "85 us a step captured (412 us issued)");
}

}  // namespace
}  // namespace stringline
