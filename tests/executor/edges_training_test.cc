// Trainings whose stages are no chain: a model with skips goes over edges of its own, and
// microbatches leave stages out. Each is held against another way to compute the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cpu/evaluate.h"
#include "executor/training/trainer.h"
#include "stages/layers.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"
#include "tests/executor/tiny_training.h"

namespace stringline {
namespace {

using testing::HasSubstr;

constexpr int kUPipeline = 4, kUMicrobatches = 6, kUSteps = 3, kULayers = 8;

// The same graph in another order, and with weight gradients of their own.
constexpr char kMirroredApart[] = R"(schedule apart(P, M) {
  stages 2 * P on v;
  edges s -> s + 1, s -> 2 * P - 1 - s where s < P - 1;
  rank r greedy { prefer I, F, W; hold at most 3 * P; }
}
)";
// The same graph on a line of ranks twice as long: skips are messages.
constexpr char kMirroredFar[] = R"(schedule far(P, M) {
  stages 2 * P on loop;
  edges s -> s + 1, s -> 2 * P - 1 - s where s < P - 1;
  rank r { repeat 2 as v { repeat M { F (v * P + r) } }
           repeat 2 as v { repeat M { B ((1 - v) * P + r) } } }
}
)";

struct EdgesCase {
  const char* name = "";
  DType dtype = DType::kF32;
  Recompute recompute = Recompute::kNone;
  Mesh mesh = {};
  Sharding sharding = Sharding::kNone;
};

AnyShape WithSkips(const EdgesCase& of) {
  AnyShape shape = TinyModel(TinyFamily::kGpt, kULayers);
  std::get<GptShape>(shape.family).skips = true;
  shape.dtype = of.dtype;
  return shape;
}

std::vector<StageEdge> EdgesOf(const Plan& plan) {
  std::vector<StageEdge> edges;
  const StageGraph& graph = plan.WholeGraph();
  for (const Edge& edge : graph.edges()) {
    if (!graph.is_chain()) edges.push_back({edge.from.value, edge.to.value});
  }
  return edges;
}

TinyTraining TrainWith(const EdgesCase& of, const AnyShape& shape, const Plan& plan) {
  BuildOptions options;
  options.recompute.what = of.recompute;
  options.edges = EdgesOf(plan);
  const auto stages = static_cast<int>(plan.stages.size());
  auto programs = BuildModelStages(shape, *SplitEven(shape.layers(), stages), options);
  SL_CHECK(programs.ok()) << programs.status();
  const TrainerSettings settings = {.seed = 3, .mesh = of.mesh, .sharding = of.sharding};
  auto made = Trainer::Make(WithSums(plan, of.mesh), *std::move(programs), settings);
  SL_CHECK(made.ok()) << made.status();
  Trainer& trainer = **made;
  std::mt19937 random(5);
  TinyTraining trained;
  for (int step = 0; step < kUSteps; ++step) {
    for (int32_t m = 0; m < trainer.microbatches(); ++m) {
      const MicrobatchId microbatch(m);
      for (const auto& data : {trainer.tokens(microbatch), trainer.targets(microbatch)}) {
        for (int32_t& token : data) token = static_cast<int32_t>(random() % kTinyVocabulary);
      }
    }
    AddStep(&trainer, of.sharding == Sharding::kNone, &trained);
  }
  ExpectPlannedBytes(trainer);
  return trained;
}

class EdgesTraining : public testing::TestWithParam<EdgesCase> {};

// Values go over edges, or through all stages between: a gradient's terms are added in
// another order then, and all else is the same.
TEST_P(EdgesTraining, SkipsAreThoseOfAChain) {
  const AnyShape shape = WithSkips(GetParam());
  const auto chain = LibraryPlan("1f1b", kUPipeline, kUMicrobatches);
  ASSERT_TRUE(chain.has_value());
  const TinyTraining wanted = TrainWith(GetParam(), shape, *chain);
  const TinyTraining edges =
      TrainWith(GetParam(), shape, PlanOfSchedule(kUShaped, kUPipeline, kUMicrobatches));
  const double close = GetParam().dtype == DType::kF32 ? 1e-6 : 5e-3;
  EXPECT_NEAR(edges.losses[0] / wanted.losses[0], 1, 1e-7);
  EXPECT_NEAR(edges.norms[0] / wanted.norms[0], 1, close);
  for (int step = 1; step < kUSteps; ++step) {
    EXPECT_NEAR(edges.losses[step] / wanted.losses[step], 1, 100 * close);
    EXPECT_NE(edges.losses[step], edges.losses[0]);
  }
  for (const char* const other : {kMirroredApart, kMirroredFar}) {
    EXPECT_EQ(TrainWith(GetParam(), shape, PlanOfSchedule(other, kUPipeline, kUMicrobatches)),
              edges)
        << other;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Skips, EdgesTraining,
    testing::Values(EdgesCase{.name = "alone"}, EdgesCase{.name = "bf16", .dtype = DType::kBF16},
                    EdgesCase{.name = "recomputed", .recompute = Recompute::kAll},
                    EdgesCase{
                        .name = "sharded", .mesh = {.data = 2}, .sharding = Sharding::kGradients}),
    [](const auto& info) { return info.param.name; });

// The encoder's last stage leads to all stages of the decoder.
constexpr char kEncoderDecoder[] = R"(schedule encoder_decoder(P, M) {
  stages P on line;
  edges s -> s + 1, P / 2 - 1 -> d where d > P / 2;
  rank r { repeat min(P - r, M) { F r } repeat M - min(P - r, M) { B r; F r }
           repeat min(P - r, M) { B r } }
}
)";

TEST_P(EdgesTraining, AnEncoderAndADecoderAreThoseOfAChain) {
  AnyShape shape = EncoderDecoderShape{.layers = kULayers,
                                       .encoder_layers = 4,
                                       .width = 16,
                                       .heads = 2,
                                       .context = 12,
                                       .source = 5,
                                       .vocabulary = kTinyVocabulary,
                                       .microbatch = 2};
  shape.dtype = GetParam().dtype;
  const auto chain = LibraryPlan("1f1b", kUPipeline, kUMicrobatches);
  ASSERT_TRUE(chain.has_value());
  const TinyTraining wanted = TrainWith(GetParam(), shape, *chain);
  const TinyTraining edges =
      TrainWith(GetParam(), shape, PlanOfSchedule(kEncoderDecoder, kUPipeline, kUMicrobatches));
  EXPECT_NEAR(edges.losses[0] / wanted.losses[0], 1, 1e-7);
  EXPECT_NEAR(edges.norms[0] / wanted.norms[0], 1, GetParam().dtype == DType::kF32 ? 1e-6 : 5e-3);
  EXPECT_LT(edges.losses[kUSteps - 1], edges.losses[0] * 1.01);
  // Chunks of a microbatch have some of its sequences each, and the order of sums is theirs.
  const auto overlapped = LibraryPlan("gpipe", kUPipeline, kUMicrobatches);
  ASSERT_TRUE(overlapped.has_value());
  EXPECT_EQ(TrainWith(GetParam(), shape, *overlapped).losses, wanted.losses);
}

TEST(EdgesOfAModel, ThoseThatItDoesNotUseAreRefused) {
  const Plan plan = PlanOfSchedule(kUShaped, kUPipeline, kUMicrobatches);
  BuildOptions options;
  options.edges = EdgesOf(plan);
  const auto programs =
      BuildModelStages(TinyModel(TinyFamily::kGpt, kULayers), *SplitEven(kULayers, 8), options);
  EXPECT_THAT(std::string(programs.status().message()),
              HasSubstr("the schedule has an edge 0 -> 7, and nothing of this model goes over it"));
}

// Odd microbatches leave out stage 1, and every third one stage 2.
constexpr char kSkipping[] = R"(schedule skipping(P, M) {
  stages P on line;
  skip s @ m where s == 1 and m % 2 == 1 or s == 2 and m % 3 == 0;
  rank r { repeat min(P - r, M) { F r } repeat M - min(P - r, M) { B r; F r }
           repeat min(P - r, M) { B r } }
}
)";
bool LeavesOut(size_t stage, int m) {
  return (stage == 1 && m % 2 == 1) || (stage == 2 && m % 3 == 0);
}

// The step is computed here by hand, microbatch after microbatch.
TEST(StagesLeftOut, TrainAsTheStagesThatAreLeft) {
  const AnyShape shape = TinyModel(TinyFamily::kGpt, kULayers);
  auto programs = BuildModelStages(shape, *SplitEven(kULayers, kUPipeline));
  ASSERT_TRUE(programs.ok()) << programs.status();
  std::vector<cpu::StageState> states;
  for (const StageProgram& program : *programs) states.push_back(cpu::MakeState(program, 3));
  auto made = Trainer::Make(PlanOfSchedule(kSkipping, kUPipeline, kUMicrobatches), *programs,
                            TrainerSettings{.seed = 3});
  ASSERT_TRUE(made.ok()) << made.status();
  Trainer& trainer = **made;
  std::mt19937 random(5);
  float sum = 0;
  for (int32_t m = 0; m < kUMicrobatches; ++m) {
    const MicrobatchId microbatch(m);
    const auto fill = [&](absl::Span<int32_t> data, const Type& type) {
      cpu::Array array = cpu::MakeArray(type);
      for (size_t i = 0; i < data.size(); ++i) {
        array.i32()[i] = data[i] = static_cast<int32_t>(random() % kTinyVocabulary);
      }
      return array;
    };
    cpu::Array x = fill(trainer.tokens(microbatch), programs->front().inputs[0].type);
    states.back().target = fill(trainer.targets(microbatch), programs->back().target);
    for (size_t s = 0; s < states.size(); ++s) {
      if (LeavesOut(s, m)) continue;
      states[s].inputs[0] = x;
      cpu::Evaluate((*programs)[s].forward, &states[s]);
      x = states[s].outputs[0];
    }
    sum += *states.back().loss.f32();
    cpu::Array grad;
    for (size_t s = states.size(); s-- > 0;) {
      if (LeavesOut(s, m)) continue;
      if (s + 1 < states.size()) states[s].out_grads[0] = grad;
      cpu::Evaluate((*programs)[s].backward, &states[s]);
      grad = states[s].in_grads[0];
    }
  }
  TinyTraining trained;
  AddStep(&trainer, true, &trained);
  EXPECT_NEAR(trained.losses[0] / sum, 1, 1e-6);
  for (size_t s = 0; s < states.size(); ++s) {
    for (size_t p = 0; p < (*programs)[s].params.size(); ++p) {
      const cpu::Array& want = states[s].param_grads[p];
      const std::vector<float> all(want.f32(), want.f32() + want.type.elements());
      EXPECT_EQ(trained.grads[(*programs)[s].params[p].name], all) << (*programs)[s].params[p].name;
    }
  }
  ExpectPlannedBytes(trainer);
}

}  // namespace
}  // namespace stringline
