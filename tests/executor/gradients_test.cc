// Every gradient and the loss of a pipeline are bitwise those of the whole model without one.
#include <random>

#include "executor/reference.h"
#include "executor/trainer.h"
#include "gtest/gtest.h"
#include "stages/layers.h"
#include "stages/models/gpt.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

GptShape TinyGpt(int layers) {
  GptShape shape;
  shape.layers = layers;
  shape.width = 16;
  shape.heads = 2;
  shape.context = 8;
  shape.microbatch = 2;
  return shape;
}

TEST(Gradients, HandMadePlan) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const GptShape shape = TinyGpt(4);
  auto programs = BuildGptStages(shape, {1, 1, 1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto whole = BuildGptStages(shape, {4});
  ASSERT_TRUE(whole.ok()) << whole.status();
  auto trainer = Trainer::Make(LoweredFrom("plan v P=2 M=2\n"
                                           "stages 0 1 1 0\n"
                                           "rank 0: 0F0 0F1 3F0 3F1&3B0 3I1 0B0 3W1 0I1 0W1\n"
                                           "rank 1: 1F0 2F0 1F1 2F1 2B0 1B0&2B1 1B1\n"),
                               *std::move(programs), {.seed = seed});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  Reference reference((*whole)[0], seed);
  std::mt19937 random(seed);
  double loss = 0;
  for (int m = 0; m < 2; ++m) {
    for (int32_t& token : (*trainer)->tokens(MicrobatchId(m))) token = random() % 256;
    for (int32_t& target : (*trainer)->targets(MicrobatchId(m))) target = random() % 256;
    loss += reference.RunMicrobatch((*trainer)->tokens(MicrobatchId(m)),
                                    (*trainer)->targets(MicrobatchId(m)));
  }
  const absl::Status status = (*trainer)->ComputeGradients();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ((*trainer)->loss_sum(), loss);
  EXPECT_GT(loss, 0);
  int p = 0;
  for (int32_t s = 0; s < 4; ++s) {
    const auto& params = (*trainer)->programs()[s].params;
    for (size_t i = 0; i < params.size(); ++i, ++p) {
      EXPECT_EQ(params[i].name, (*whole)[0].params[p].name);
      const auto got = (*trainer)->grad(StageId(s), static_cast<int>(i));
      const auto want = reference.grad(p);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << params[i].name;
    }
  }
}

}  // namespace
}  // namespace stringline
