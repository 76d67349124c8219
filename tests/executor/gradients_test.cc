// Every gradient and the loss of a pipeline are those of the whole model without one: bitwise where
// sums are made in the same order.
#include <algorithm>
#include <cmath>
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

// Whether every stage adds up its weight gradients in the order of the microbatches. Only then are
// two sums of floats equal in every bit.
bool AddsInOrder(const Plan& plan) {
  std::vector<int> latest(plan.stages.size(), -1);
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::kBackward && action.kind != ActionKind::kWeightGradient)
      continue;
    int& last = latest[action.stage.value];
    if (action.microbatch.value < last) return false;
    last = action.microbatch.value;
  }
  return true;
}

class Comparison {
 public:
  Comparison(const Plan& plan, unsigned seed, const Mesh& mesh = {})
      : stages_(plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages),
        in_order_(AddsInOrder(plan) && plan.pipes.empty() && mesh.coordinates() == 1),
        seed_(seed) {
    const GptShape shape = TinyGpt(stages_);
    whole_ = std::move(BuildGptStages(shape, {stages_})->front());
    const auto pipe = BuildGptStages(shape, std::vector<int>(stages_, 1));
    std::vector<StageProgram> programs;
    while (programs.size() < plan.stages.size()) {
      programs.insert(programs.end(), pipe->begin(), pipe->end());
    }
    auto trainer = Trainer::Make(plan, std::move(programs), {.seed = seed, .mesh = mesh});
    SL_CHECK(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
  }

  void RunAndCompare() {
    const int microbatches = trainer_->microbatches();
    Reference reference(whole_, seed_);
    std::mt19937 random(seed_);
    double loss = 0;
    for (int32_t m = 0; m < microbatches; ++m) {
      const auto tokens = trainer_->tokens(MicrobatchId(m));
      const auto targets = trainer_->targets(MicrobatchId(m));
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 256);
      for (int32_t& target : targets) target = static_cast<int32_t>(random() % 256);
      loss += reference.RunMicrobatch(tokens, targets);
    }
    const absl::Status status = trainer_->ComputeGradients();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(loss, 0);
    EXPECT_EQ(trainer_->loss_sum(), loss);
    for (int c = 0; c < trainer_->mesh().coordinates(); ++c) CompareCopies(reference, c);
  }

  bool in_order() const { return in_order_; }

 private:
  // The gradients of every stage, and of every copy of it.
  void CompareCopies(const Reference& reference, int coordinate) {
    int p = 0;
    for (int32_t s = 0; s < static_cast<int32_t>(trainer_->programs().size()); ++s) {
      if (s % stages_ == 0) p = 0;
      const std::vector<Param>& params = trainer_->programs()[s].params;
      for (size_t i = 0; i < params.size(); ++i, ++p) {
        ASSERT_EQ(params[i].name, whole_.params[p].name);
        CompareGradient(params[i].name, trainer_->grad(StageId(s), static_cast<int>(i), coordinate),
                        reference.grad(p));
      }
    }
    EXPECT_EQ(p, static_cast<int>(whole_.params.size()));
  }

  void CompareGradient(const std::string& name, absl::Span<const float> got,
                       absl::Span<const float> want) {
    ASSERT_EQ(got.size(), want.size());
    float largest = 0, apart = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i]) && std::isfinite(want[i])) << name << " " << i;
      largest = std::max(largest, std::abs(want[i]));
      apart = std::max(apart, std::abs(got[i] - want[i]));
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LE(apart, in_order_ ? 0.0F : 1e-5F * largest) << name;
  }

  const int stages_;  // of one pipe
  const bool in_order_;
  const unsigned seed_;
  StageProgram whole_;
  std::unique_ptr<Trainer> trainer_;
};

TEST(Gradients, AHandMadePlanOfAllKindsOfActions) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Comparison comparison(LoweredFrom("plan v P=2 M=2\n"
                                    "stages 0 1 1 0\n"
                                    "rank 0: 0F0 0F1 3F0 3F1&3B0 3I1 0B0 3W1 0I1 0W1\n"
                                    "rank 1: 1F0 2F0 1F1 2F1 2B0 1B0&2B1 1B1\n"),
                        seed);
  ASSERT_TRUE(comparison.in_order());
  comparison.RunAndCompare();
}

// Copies of the pipeline, each with its own microbatches: the same gradients in all of them.
TEST(Gradients, AreSummedOverTheDataCoordinatesOfAMesh) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v", "chimera", "dualpipe"}) {
    for (const int copies : {2, 3}) {
      Comparison comparison(LibraryPlan(schedule, 2, 4).value(), seed, {.data = copies});
      comparison.RunAndCompare();
    }
  }
}

// Two pipes add up their own microbatches first.
bool SumsInAnotherOrder(const std::string& schedule) {
  return schedule == "chimera" || schedule == "dualpipe";
}

class Library : public testing::TestWithParam<const char*> {};

TEST_P(Library, GradientsAreThoseOfTheOracle) {
  const unsigned seed = std::random_device{}();
  int compared = 0, in_order = 0;
  for (int p : {1, 2, 4}) {
    for (int m : {p, 2 * p, 2 * p + 1, 3 * p}) {
      const std::optional<Plan> plan = LibraryPlan(GetParam(), p, m);
      if (!plan.has_value()) continue;
      SCOPED_TRACE(testing::Message() << "P=" << p << " M=" << m << " seed " << seed);
      Comparison comparison(*plan, seed);
      comparison.RunAndCompare();
      ++compared;
      in_order += comparison.in_order() ? 1 : 0;
    }
  }
  EXPECT_GE(compared, 3);
  EXPECT_GE(in_order, SumsInAnotherOrder(GetParam()) ? 0 : 1);
  RecordProperty("plans", compared);
  RecordProperty("bitwise", in_order);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Library,
                         testing::Values("gpipe", "1f1b", "looped_bfs", "interleaved",
                                         "interleaved_zb", "megatron_combined", "kimi_k2", "zb_h1",
                                         "zb_h2", "zb_v", "dualpipe_v", "v_half", "v_min", "gis",
                                         "hanayo", "chimera", "dualpipe"),
                         [](const auto& info) { return "s_" + std::string(info.param); });

}  // namespace
}  // namespace stringline
