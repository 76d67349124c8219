// Runs in bf16: the same bits for every schedule, close to runs in fp32, with parameters in fp32.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "executor/engine/bf16.h"
#include "executor/engine/optimizer.h"
#include "executor/run/train.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

RunConfig Bf16Run(TinyFamily family, int64_t steps) {
  RunConfig config = SmallRun(steps);
  if (family != TinyFamily::kGpt) {
    AnyShape shape = TinyModel(family, 4);
    std::get<DecoderShape>(shape.family).vocabulary = 256;
    config.shape = shape;
  }
  config.shape.dtype = DType::kBF16;
  return config;
}

std::vector<double> Bf16Losses(const RunConfig& config, const char* schedule, int p,
                               const std::string& text = Corpus()) {
  const auto result = Train(config, LibraryPlan(schedule, p, 8).value(), text, {});
  SL_CHECK(result.ok()) << result.status();
  return result->losses_nats;
}

TEST(Bf16Runs, LossesAreTheSameInEveryBitWhateverTheSchedule) {
  for (const TinyFamily family : kTinyFamilies) {  // Llama's head is its embedding
    SCOPED_TRACE(NameOf(family));
    RunConfig config = Bf16Run(family, 6);
    const std::vector<double> whole = Bf16Losses(config, "gpipe", 1);
    ASSERT_EQ(whole.size(), 6u);
    EXPECT_LT(whole.back(), whole.front());
    EXPECT_EQ(Bf16Losses(config, "gpipe", 1), whole);
    EXPECT_EQ(Bf16Losses(config, "1f1b", 4), whole);
    EXPECT_EQ(Bf16Losses(config, "zb_v", 2), whole);
    config.recompute.what = Recompute::kAll;
    EXPECT_EQ(Bf16Losses(config, "dualpipe_v", 2), whole);
    for (const int threads : {1, 2, 5}) {
      config.threads = threads;
      EXPECT_EQ(Bf16Losses(config, "dualpipe_v", 2), whole) << threads << " threads";
    }
    config.shape.dtype = DType::kF32;
    EXPECT_NE(Bf16Losses(config, "1f1b", 2), whole);
  }
}

// Rounding changes a loss by less than one in a hundred, and the loss falls as far.
TEST(Bf16Runs, LossesStayNearThoseOfF32) {
  for (const TinyFamily family : kTinyFamilies) {
    SCOPED_TRACE(NameOf(family));
    RunConfig config = Bf16Run(family, 60);
    const std::vector<double> narrow = Bf16Losses(config, "1f1b", 2);
    config.shape.dtype = DType::kF32;
    const std::vector<double> wide = Bf16Losses(config, "1f1b", 2);
    EXPECT_LT(wide.back(), 0.8 * wide.front());
    for (size_t i = 0; i < wide.size(); ++i) {
      EXPECT_NEAR(narrow[i], wide[i], 0.01 * wide[i]) << "step " << i + 1;
    }
  }
}

// The loss of the same few tokens over and over, at a rate whose steps would not change a bf16
// parameter of 0.02: half a unit of its last bit is 6e-5.
TEST(Bf16Runs, StepsSmallerThanABf16CanHoldAddUp) {
  const std::string window = Corpus().substr(0, SmallRun(1).shape.context() + 1);
  RunConfig config = Bf16Run(TinyFamily::kGpt, 200);
  config.optimizer.learning_rate = config.final_rate = 1e-5;
  const std::vector<double> narrow = Bf16Losses(config, "1f1b", 2, window);
  config.shape.dtype = DType::kF32;
  const std::vector<double> wide = Bf16Losses(config, "1f1b", 2, window);
  const double fell = wide.front() - wide.back();
  EXPECT_GT(fell, 0.05);
  EXPECT_NEAR(narrow.front() - narrow.back(), fell, 0.1 * fell);
}

TEST(Bf16Runs, AnUpdateRoundsTheParameterIntoItsWorkingCopy) {
  std::vector<float> values = {1, -3, 0.5F, 100}, gradient(4), m(4, 0), v(4, 0);
  std::vector<uint16_t> working(4, 0);
  ParamBlock block;
  block.values = absl::MakeSpan(values);
  block.gradient = absl::MakeSpan(gradient);
  block.m = absl::MakeSpan(m);
  block.v = absl::MakeSpan(v);
  block.working = absl::MakeSpan(working);
  UpdateStep step;
  step.adamw = {.learning_rate = 1e-4, .weight_decay = 0};
  int changes = 0;
  for (step.number = 1; step.number <= 100; ++step.number) {
    const std::vector<uint16_t> before = working;
    gradient.assign(4, 1.0F);
    CpuKernels()->Update(step, {&block, 1}, {});
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(working[i], ToBf16(values[i])) << i;
    changes += working[0] != before[0] ? 1 : 0;
  }
  // AdamW steps by its rate, whatever the size of the gradient: a hundred steps are 0.01, and just
  // below 1 the numbers of bf16 are 2^-8 apart.
  EXPECT_NEAR(values[0], 0.99, 1e-5);
  EXPECT_EQ(changes, 1 + 3);  // the first, and past 1/2, 3/2 and 5/2 of 2^-8
}

}  // namespace
}  // namespace stringline
