// Trainings of schedules with slices: every bit is the same whatever the schedule and the cut, and
// losses and norms are those of whole sequences but for rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "executor/training/trainer.h"
#include "stages/layers.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"
#include "tests/executor/tiny_training.h"

namespace stringline {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 4, kMicrobatches = 4, kSteps = 3, kLayers = 8;

struct SlicedCase {
  const char* name = "";
  TinyFamily family = TinyFamily::kGpt;
  DType dtype = DType::kF32;
  Recompute recompute = Recompute::kNone;
  Mesh mesh = {};
  Sharding sharding = Sharding::kNone;
};

AnyShape ShapeOf(const SlicedCase& of) {
  AnyShape shape = TinyModel(of.family, kLayers);
  shape.dtype = of.dtype;
  if (auto* const decoder = std::get_if<DecoderShape>(&shape.family)) {
    decoder->moe.aux_coefficient = 0;  // a balance loss is of the tokens that are together
    decoder->qk_norm = true;
  }
  return shape;
}

TinyTraining TrainWith(const SlicedCase& of, const Plan& plan) {
  const AnyShape shape = ShapeOf(of);
  const auto stages = static_cast<int>(plan.stages.size());
  BuildOptions options = {.expert_ranks = of.mesh.expert, .slices = plan.slices};
  options.recompute.what = of.recompute;
  auto programs = BuildModelStages(shape, *SplitEven(kLayers, stages), options);
  SL_CHECK(programs.ok()) << programs.status();
  const TrainerSettings settings = {.seed = 3, .mesh = of.mesh, .sharding = of.sharding};
  auto made = Trainer::Make(WithSums(plan, of.mesh), *std::move(programs), settings);
  SL_CHECK(made.ok()) << made.status();
  Trainer& trainer = **made;
  EXPECT_EQ(trainer.microbatches(), kMicrobatches * of.mesh.coordinates());
  EXPECT_EQ(trainer.tokens_per_step(), trainer.microbatches() * shape.tokens());
  std::mt19937 random(5);
  TinyTraining trained;
  for (int step = 0; step < kSteps; ++step) {
    for (int32_t m = 0; m < trainer.microbatches(); ++m) {
      const MicrobatchId microbatch(m);
      for (const auto& data : {trainer.tokens(microbatch), trainer.targets(microbatch)}) {
        EXPECT_EQ(static_cast<int64_t>(data.size()), shape.tokens());
        for (int32_t& token : data) token = static_cast<int32_t>(random() % kTinyVocabulary);
      }
    }
    AddStep(&trainer, of.sharding == Sharding::kNone, &trained);
  }
  ExpectPlannedBytes(trainer);
  return trained;
}

class SlicedTraining : public testing::TestWithParam<SlicedCase> {};

TEST_P(SlicedTraining, IsTheSameWhateverTheScheduleAndNearlyThatOfWholeSequences) {
  const bool gathers = GetParam().sharding == Sharding::kParameters;
  const auto plan_of = [&](const char* name) {
    const auto plan = LibraryPlan(name, kRanks, kMicrobatches, CommLayout::kEdge, gathers ? 2 : 0);
    SL_CHECK(plan.has_value()) << name;
    return *plan;
  };
  const TinyTraining whole = TrainWith(GetParam(), plan_of("1f1b"));
  const TinyTraining sliced = TrainWith(GetParam(), plan_of("seq1f1b"));
  for (const char* const other : {"terapipe", "svpp", "slimpipe"}) {
    const Plan plan = plan_of(other);
    ASSERT_EQ(plan.slices, 4) << other;
    EXPECT_EQ(TrainWith(GetParam(), plan), sliced) << other;
  }
  // Steps after the first begin with parameters that AdamW has moved by signs of gradients, also of
  // those that are rounding noise.
  const double close = GetParam().dtype == DType::kF32 ? 1e-6 : 5e-3;
  EXPECT_NEAR(sliced.losses[0] / whole.losses[0], 1, close);
  EXPECT_NEAR(sliced.norms[0] / whole.norms[0], 1, 10 * close);
  for (int step = 1; step < kSteps; ++step) {
    EXPECT_NEAR(sliced.losses[step] / whole.losses[step], 1, 100 * close) << step;
  }
  for (const auto& [name, values] : whole.grads) {
    const std::vector<float>& others = sliced.grads.at(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    float largest = 0, apart = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::fabs(values[i]));
      apart = std::max(apart, std::fabs(values[i] - others[i]));
    }
    EXPECT_LE(apart, 10 * close * std::max(largest, 1e-3f)) << name << ": " << largest;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, SlicedTraining,
    testing::Values(
        SlicedCase{"gpt"}, SlicedCase{"llama", TinyFamily::kLlama},
        SlicedCase{"moe", TinyFamily::kMoe}, SlicedCase{"gpt_bf16", TinyFamily::kGpt, DType::kBF16},
        SlicedCase{"llama_recompute", TinyFamily::kLlama, DType::kF32, Recompute::kAll},
        SlicedCase{
            "moe_shared_out", TinyFamily::kMoe, DType::kF32, Recompute::kAttn, {.expert = 2}},
        SlicedCase{"llama_sharded",
                   TinyFamily::kLlama,
                   DType::kF32,
                   Recompute::kNone,
                   {.data = 2},
                   Sharding::kParameters}),
    [](const auto& info) { return std::string(info.param.name); });

// The models and sequences that have no slices.
TEST(SlicedPrograms, AreRefusedByName) {
  const auto message = [](const AnyShape& shape, int slices) {
    return std::string(BuildModelStages(shape, {1, 1}, {.slices = slices}).status().message());
  };
  EXPECT_THAT(
      message(TinyModel(TinyFamily::kGpt, 2), 3),
      HasSubstr("into 3 slices, and model.context is 8 tokens: a multiple of 3 would help"));
  EXPECT_THAT(message(TinyModel(TinyFamily::kMoe, 2), 16), HasSubstr("a multiple of 16"));
  const auto whole = BuildModelStages(TinyModel(TinyFamily::kGpt, 2), {1, 1});
  const auto made = Trainer::Make(*LibraryPlan("seq1f1b", 2, 2), *whole, {});
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("has programs of 1 slices, and the plan has 4"));
}

// A later slice's programs by hand: two slices of GPT with one layer.
TEST(SlicedPrograms, ReadThePastAndGiveItsGradient) {
  const auto programs = BuildModelStages(TinyModel(TinyFamily::kGpt, 1), {1}, {.slices = 4});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const StageProgram& first = programs->front();
  ASSERT_EQ(first.later_slices.size(), 3u);
  const auto count = [](const std::vector<Port>& ports, Role role) {
    return std::count_if(ports.begin(), ports.end(),
                         [&](const Port& port) { return port.role == role; });
  };
  for (int k = 0; k < 4; ++k) {
    const StageProgram& program = first.OfSlice(k);
    EXPECT_EQ(program.params, first.params);
    EXPECT_EQ(program.slice, (SlicePlace{k, 4}));
    EXPECT_EQ(program.keys.shape, (std::vector<int64_t>{2, 2, 32}));
    EXPECT_EQ(count(program.forward.inputs, Role::kPast), k);
    EXPECT_EQ(count(program.forward.outputs, Role::kKeys), k < 3 ? 1 : 0);
    for (const Graph* const graph : {&program.backward, &program.input_gradient}) {
      EXPECT_EQ(count(graph->inputs, Role::kPast), k);
      EXPECT_EQ(count(graph->inputs, Role::kKeyGrad), k < 3 ? k + 1 : 0);
      EXPECT_EQ(count(graph->outputs, Role::kKeyGradBefore), k);
    }
    EXPECT_EQ(count(program.weight_gradient.inputs, Role::kPast), 0);
    // The keys that are put together for attention are not kept.
    for (const Saved& saved : program.saved) {
      EXPECT_NE(saved.type.shape, (std::vector<int64_t>{2, 2 * k, 32})) << k;
    }
  }
}

}  // namespace
}  // namespace stringline
