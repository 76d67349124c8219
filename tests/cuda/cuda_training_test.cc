// Whole training steps on the CUDA backend, run by the host, against the CPU's trainer.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "stages/models/model.h"
#include "tests/cuda/run_numbers.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

struct TrainedModel {
  TinyFamily family;
  const char* schedule;
  Mesh mesh;
  DType dtype = DType::kF32;
  Sharding sharding = Sharding::kNone;
};

// The results of some steps: losses and norms, the gradients of the first, and the final
// parameters.
struct Trained {
  std::vector<double> losses, norms;
  ParamValues gradients, params;
};

absl::StatusOr<std::unique_ptr<Trainer>> TryTrainer(const TrainedModel& model,
                                                    std::unique_ptr<Backend> backend,
                                                    double balance_rate = 1e-3,
                                                    bool capture = true) {
  const int resident = model.sharding == Sharding::kParameters ? 2 : 0;
  const Plan plan =
      WithSums(LibraryPlan(model.schedule, 2, 4, CommLayout::kEdge, resident).value(), model.mesh);
  const auto stages = static_cast<int>(plan.stages.size());
  AnyShape shape = TinyModel(model.family, stages);
  shape.dtype = model.dtype;
  auto programs =
      BuildModelStages(shape, std::vector<int>(stages, 1), {.expert_ranks = model.mesh.expert});
  SL_CHECK(programs.ok()) << programs.status();
  return Trainer::Make(plan, *std::move(programs),
                       {.seed = 5,
                        .record = false,
                        .balance_rate = balance_rate,
                        .mesh = model.mesh,
                        .sharding = model.sharding,
                        .bucket_bytes = 4096,
                        .capture = capture},
                       std::move(backend));
}

std::unique_ptr<Trainer> MakeTrainer(const TrainedModel& model, std::unique_ptr<Backend> backend,
                                     double balance_rate = 1e-3, bool capture = true) {
  auto trainer = TryTrainer(model, std::move(backend), balance_rate, capture);
  SL_CHECK(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

void FillData(Trainer& trainer, unsigned seed) {
  std::mt19937 random(seed);
  for (int32_t m = 0; m < trainer.microbatches(); ++m) {
    for (const auto numbers : {trainer.tokens(MicrobatchId(m)), trainer.targets(MicrobatchId(m))}) {
      for (int32_t& number : numbers) number = static_cast<int32_t>(random() % kTinyVocabulary);
    }
  }
}

Trained TrainedSteps(Trainer& trainer, const std::vector<unsigned>& seeds = {3, 4}) {
  Trained trained;
  for (const unsigned seed : seeds) {
    FillData(trainer, seed);
    const absl::Status status = trainer.ComputeGradients();
    SL_CHECK(status.ok()) << status;
    trained.losses.push_back(trainer.loss_sum() + trainer.aux_loss_sum());
    EXPECT_EQ(trainer.dropped(), 0);
    if (trained.gradients.empty()) trained.gradients = GradientsOf(trainer);
    const absl::StatusOr<double> norm = trainer.Update(1e-2);
    SL_CHECK(norm.ok()) << norm.status();
    trained.norms.push_back(*norm);
  }
  trained.params = ParamsOf(trainer);
  for (const std::vector<float>& left : GradientsOf(trainer)) {
    EXPECT_EQ(left, std::vector<float>(left.size())) << "a gradient after its update";
  }
  return trained;
}

Trained TrainOnCuda(const TrainedModel& model, unsigned order) {
  standin_reset(order);
  standin_cublas_reset();
  auto backend = CudaBackend::Make();
  SL_CHECK(backend.ok()) << backend.status();
  return TrainedSteps(*MakeTrainer(model, *std::move(backend)));
}

float LargestOf(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}
float Largest(const ParamValues& all) {
  float largest = 0;
  for (const std::vector<float>& values : all) largest = std::max(largest, LargestOf(values));
  return largest;
}

// Within `tolerance` of the largest value; for a gradient that is only rounding noise, within a
// small part of the largest of all.
void ExpectNear(const std::vector<float>& seen, const std::vector<float>& expected,
                float largest_of_all, float tolerance) {
  ASSERT_EQ(seen.size(), expected.size());
  const float largest = std::max(LargestOf(expected), 1e-2f * largest_of_all);
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_NEAR(seen[i], expected[i], tolerance * largest) << i;
  }
}

class CudaTraining : public testing::TestWithParam<TrainedModel> {};

TEST_P(CudaTraining, GivesTheNumbersOfTheCpuAndTheSameBitsInEveryOrder) {
  const TrainedModel& model = GetParam();
  const Trained expected = TrainedSteps(*MakeTrainer(model, nullptr));
  const Trained seen = TrainOnCuda(model, 1);
  // In bf16 a sum in another order differs in some elements.
  const bool bf16 = model.dtype == DType::kBF16;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    // The update before the second step divides gradients by their size, including those that are
    // only rounding noise.
    const double tolerance = bf16 ? 1e-2 : i == 0 ? 1e-5 : 1e-3;
    EXPECT_NEAR(seen.losses[i], expected.losses[i], tolerance * expected.losses[i]);
    EXPECT_NEAR(seen.norms[i], expected.norms[i], tolerance * expected.norms[i]);
  }
  ASSERT_EQ(seen.gradients.size(), expected.gradients.size());
  for (size_t p = 0; p < expected.gradients.size(); ++p) {
    SCOPED_TRACE(testing::Message() << "parameter " << p);
    ExpectNear(seen.gradients[p], expected.gradients[p], Largest(expected.gradients),
               bf16 ? 2e-2f : 1e-5f);
  }
  const unsigned order = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "order " << order);
  const Trained again = TrainOnCuda(model, order);
  EXPECT_EQ(again.losses, seen.losses);
  EXPECT_EQ(again.norms, seen.norms);
  EXPECT_TRUE(again.gradients == seen.gradients);
  EXPECT_TRUE(again.params == seen.params);
}

// A captured step, replayed, gives the results of an issued one, with new numbers in every step.
TEST_P(CudaTraining, GivesTheSameBitsCaptured) {
  Trained expected;
  for (const bool capture : {false, true}) {
    standin_reset(1);
    standin_cublas_reset();
    auto backend = CudaBackend::Make();
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto trainer = MakeTrainer(GetParam(), *std::move(backend), 1e-3, capture);
    const Trained seen = TrainedSteps(*trainer, {3, 4, 5, 6, 5});
    const HostTime& host = trainer->repeated_step().host_time();
    EXPECT_EQ(host.captured_steps, capture ? 2 : 0);
    EXPECT_EQ(host.issued_steps, capture ? 1 : 4);
    EXPECT_EQ(trainer->repeated_step().refusal(), "");
    if (!capture) {
      expected = seen;
      continue;
    }
    EXPECT_EQ(seen.losses, expected.losses);
    EXPECT_EQ(seen.norms, expected.norms);
    EXPECT_TRUE(seen.params == expected.params);
  }
  EXPECT_NE(expected.losses[3], expected.losses[2]);
}

// Blocks of parameters, by coordinate, stage and block.
std::map<std::vector<int>, std::vector<float>> BlocksOf(Trainer& trainer) {
  std::map<std::vector<int>, std::vector<float>> blocks;
  for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
    for (int s = 0; s < static_cast<int>(trainer.programs().size()); ++s) {
      for (const OwnedBlock& owned : trainer.OwnedBlocks(StageId(s), c)) {
        blocks[{c, s, owned.block}] = OnHost(trainer.device(), owned.values);
      }
    }
  }
  return blocks;
}

// Issued and replayed, for every kind of sharding, with replicas.
TEST(CudaTrainer, StateThatIsSharedOutIsThatOfWholeCopies) {
  for (TrainedModel model : {TrainedModel{TinyFamily::kLlama, "1f1b", {4, 1, 2}},
                             TrainedModel{TinyFamily::kMoe, "zb_v", {2, 2}, DType::kBF16}}) {
    std::map<std::vector<int>, std::vector<float>> whole;
    std::vector<double> losses, norms;
    for (const Sharding sharding :
         {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
      SCOPED_TRACE(absl::StrCat(NameOf(model.family), " ", NameOf(sharding)));
      const bool whole_or_all = sharding == Sharding::kNone || sharding == Sharding::kParameters;
      // The experts try all four.
      if (model.family == TinyFamily::kLlama && !whole_or_all) continue;
      standin_reset(1);
      standin_cublas_reset();
      model.sharding = sharding;
      auto backend = CudaBackend::Make();
      ASSERT_TRUE(backend.ok()) << backend.status();
      const auto trainer = MakeTrainer(model, *std::move(backend));
      std::vector<double> own_losses, own_norms;
      for (const unsigned seed : {3, 4, 5, 6}) {
        FillData(*trainer, seed);
        const absl::Status status = trainer->ComputeGradients();
        ASSERT_TRUE(status.ok()) << status;
        own_losses.push_back(trainer->loss_sum());
        const absl::StatusOr<double> norm = trainer->Update(1e-2);
        ASSERT_TRUE(norm.ok()) << norm.status();
        own_norms.push_back(*norm);
      }
      EXPECT_EQ(trainer->repeated_step().refusal(), "");
      for (const RankBytes& rank : trainer->rank_bytes()) EXPECT_EQ(rank.planned, rank.allocated);
      const auto blocks = BlocksOf(*trainer);
      if (sharding == Sharding::kNone) {
        whole = blocks;
        losses = own_losses;
        norms = own_norms;
      }
      EXPECT_EQ(own_losses, losses);
      EXPECT_EQ(own_norms, norms);
      EXPECT_EQ(blocks.size() * trainer->sharing().shards, whole.size());
      for (const auto& [place, values] : blocks) ASSERT_EQ(values, whole[place]) << place[2];
    }
  }
}

TEST(CudaTrainer, AnErrorOfALaunchComesOutOfTheStep) {
  standin_reset(1);
  standin_cublas_reset();
  auto backend = CudaBackend::Make();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto trainer = MakeTrainer({TinyFamily::kGpt, "1f1b", {}}, *std::move(backend));
  FillData(*trainer, 3);
  standin_cublas_fail_call(5, 13);  // CUBLAS_STATUS_EXECUTION_FAILED
  const absl::Status status = trainer->ComputeGradients();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "the launch of linear")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), standin_cublas_failed_call())) << status;
}

// With the workspaces of its own kernels and libraries, whatever the CPU's need.
TEST(CudaTrainer, CountsWhatItsKernelsTakeBeforeItTakesAnything) {
  const TrainedModel model = {TinyFamily::kGpt, "1f1b", {}};
  standin_reset(1);
  standin_cublas_reset();
  int64_t bytes = 0;
  const auto trainer = MakeTrainer(model, CudaBackend::Make().value());
  for (const RankBytes& rank : trainer->rank_bytes()) {
    EXPECT_EQ(rank.planned, rank.allocated);
    bytes += rank.planned;
  }
  standin_reset(1);
  standin_set_memory(bytes - 1);
  const auto refused = TryTrainer(model, CudaBackend::Make().value());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "the GPU's free memory"))
      << refused.status();
}

// The table of `run --verbose`: the same for every schedule with the same model and cut.
TEST(CudaTrainer, SaysWhatItsLibrariesChose) {
  const auto described = [](const char* schedule, DType dtype) {
    standin_reset(1);
    standin_cublas_reset();
    auto backend = CudaBackend::Make();
    SL_CHECK(backend.ok()) << backend.status();
    return MakeTrainer({TinyFamily::kGpt, schedule, {}, dtype}, *std::move(backend))
        ->DescribeKernels();
  };
  const std::string table = described("zb_h1", DType::kF32);
  EXPECT_TRUE(absl::StrContains(table, "\ndw += dy' x of 16 rows, 16 inputs, 64 outputs: algo"))
      << table;
  EXPECT_FALSE(absl::StrContains(table, "attention")) << table;
  EXPECT_EQ(described("1f1b", DType::kF32), table);
  const std::string in_bf16 = described("1f1b", DType::kBF16);
  EXPECT_TRUE(absl::StrContains(in_bf16, "\ndw += dy' x of 16 rows, 16 inputs, 64 outputs in bf16"))
      << in_bf16;
  EXPECT_TRUE(absl::StrContains(in_bf16, "\nattention by our own kernel: ")) << in_bf16;
  EXPECT_TRUE(absl::StrContains(
      in_bf16, "\ndx = dy w * gelu'(u) of 16 rows, 64 inputs, 16 outputs in bf16: algorithm "))
      << in_bf16;
}

TEST(CudaTrainer, AnOpWithoutAKernelIsNamed) {
  standin_reset(1);
  standin_cublas_reset();
  auto backend = CudaBackend::Make();
  ASSERT_TRUE(backend.ok()) << backend.status();
  GptShape shape = std::get<GptShape>(TinyModel(TinyFamily::kGpt, 2).family);
  shape.width = 264;
  shape.heads = 1;
  const auto programs = BuildModelStages(AnyShape(shape), {1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto trainer =
      Trainer::Make(LibraryPlan("1f1b", 2, 4).value(), *programs, {}, *std::move(backend));
  EXPECT_EQ(
      trainer.status(),
      absl::UnimplementedError("the CUDA backend has attention for heads of at most 256 channels"));
}

std::vector<TrainedModel> TrainedModels() {
  std::vector<TrainedModel> models;
  for (const TinyFamily family : kTinyFamilies) {
    for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
      models.push_back({family, schedule, {}});
      if (family == TinyFamily::kMoe) models.push_back({family, schedule, {.expert = 2}});
    }
    models.push_back({family, "dualpipe_v", {}, DType::kBF16});
  }
  models.push_back({TinyFamily::kMoe, "zb_v", {.expert = 2}, DType::kBF16});
  return models;
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaTraining, testing::ValuesIn(TrainedModels()),
                         [](const auto& info) {
                           const TrainedModel& model = info.param;
                           return absl::StrCat("s_", model.schedule, "_", NameOf(model.family),
                                               model.mesh.expert > 1 ? "_experts2" : "",
                                               model.dtype == DType::kBF16 ? "_bf16" : "");
                         });

}  // namespace
}  // namespace stringline
