// The checks of gpu_check for a GPU find no fault beside the stand-in, and find the faults made
// here.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

struct KeptRows final : CheckRows {
  void Say(CheckRow row) override { all.push_back(std::move(row)); }
  std::vector<CheckRow> all;
};

TEST(GpuSections, TheDevicePasses) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    standin_reset(seed);
    KeptRows rows;
    CheckDevice(&rows);
    EXPECT_EQ(rows.all.size(), 3u);
    for (const CheckRow& row : rows.all) {
      EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
    }
    EXPECT_EQ(standin_alive(), 0);
  }
}

TEST(GpuSections, TrainingPasses) {
  standin_reset(1);
  standin_cublas_reset();
  KeptRows rows;
  CheckTraining(STRINGLINE_SOURCE_DIR "/schedules", {2}, &rows);
  EXPECT_GE(rows.all.size(), 37u);  // 17 schedules, two models each, and three in chunks
  for (const CheckRow& row : rows.all) {
    EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
  }
}

// Our own kernel as the library; its gradient is wrong if `spoils`, and its lse varies from run to
// run if `wanders`.
class OwnAsLibrary final : public cuda::AttentionLibrary {
 public:
  static inline bool spoils = false, wanders = false;

  absl::StatusOr<const cuda::AttentionPlan*> Choose(
      const cuda::AttentionProblem& problem) override {
    plan_ = {problem, problem.batch * problem.heads * problem.positions * 4};
    return &plan_;
  }
  absl::Status Run(const cuda::AttentionPlan* plan, const cuda::AttentionRun& run,
                   cudaStream_t stream) const override {
    using cuda::Bf16;
    const cuda::AttentionProblem& p = plan->problem;
    cuda::AttentionShape shape = {p.batch, p.positions, {p.heads, p.kv_heads, p.size}};
    const cuda::StreamRun launch(stream);
    const auto* const qkv = static_cast<const Bf16*>(run.qkv);
    auto* const y = static_cast<Bf16*>(run.y);
    if (p.gradient) {
      auto* const dqkv = static_cast<Bf16*>(run.dqkv);
      RunAttentionGrad(launch, cuda::AttentionGradArguments<Bf16>{
                                   static_cast<const Bf16*>(run.dy), qkv, y, run.lse,
                                   static_cast<float*>(run.workspace), dqkv, shape});
      const int64_t all = p.batch * p.positions * shape.heads.all() * p.size;
      if (spoils) launch(cuda::Scale<Bf16, Bf16>{dqkv, dqkv, all, 1.05f});
    } else {
      RunAttention(launch, cuda::AttentionArguments<Bf16>{qkv, y, run.lse, shape});
      const float factor = 1 + 1e-4f * static_cast<float>(++runs_);
      if (wanders) launch(cuda::Scale<float, float>{run.lse, run.lse, 9, factor});
    }
    return launch.error() == cudaSuccess ? absl::OkStatus() : absl::InternalError("a launch");
  }
  std::string Describe() const override { return ""; }

 private:
  cuda::AttentionPlan plan_;
  mutable int runs_ = 0;
};

std::vector<CheckRow> AttentionRows(CudaKernels::AttentionSource library) {
  standin_reset(1);
  standin_cublas_reset();
  KeptRows rows;
  CheckAttention({{false, 2, 40, 4, 2, 8}}, library, &rows);
  return rows.all;
}

TEST(GpuSections, AttentionIsComparedWithOurOwn) {
  const CudaKernels::AttentionSource own =
      []() -> absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> {
    return std::make_unique<OwnAsLibrary>();
  };
  std::vector<CheckRow> rows = AttentionRows(own);
  ASSERT_EQ(rows.size(), 2);
  for (const CheckRow& row : rows) {
    EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
    EXPECT_NE(row.said.find("0.0e+00 from our own"), std::string::npos) << row.said;
  }
  OwnAsLibrary::spoils = true;
  rows = AttentionRows(own);
  OwnAsLibrary::spoils = false;
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].result, CheckResult::kPass);
  EXPECT_EQ(rows[1].result, CheckResult::kFail);
  EXPECT_EQ(rows[1].name,
            "the gradient of attention of 2 x 40 positions, 4 heads of 8 channels, 2 of keys");
  OwnAsLibrary::wanders = true;
  rows = AttentionRows(own);
  OwnAsLibrary::wanders = false;
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0].result, CheckResult::kFail);
  EXPECT_EQ(rows[0].said, "two runs of the library's gave different bits");
  rows = AttentionRows(cuda::CudnnAttention);
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].result, CheckResult::kSkip);
}

void Reset() {
  standin_reset(1);
  standin_cublas_reset();
}

void ExpectPassed(const std::vector<CheckRow>& rows) {
  for (const CheckRow& row : rows) {
    EXPECT_EQ(row.result, CheckResult::kPass) << row.name << ": " << row.said;
  }
}

TEST(GpuSections, KernelsAreTheCpus) {
  Reset();
  standin_set_memory(int64_t{8} << 30);  // every case has memory of its own
  KeptRows rows;
  CheckKernelNumbers(&rows);
  ExpectPassed(rows.all);
  EXPECT_GE(rows.all.size(), 80u);  // nearly every op in two types
  double worst = 0;
  for (const CheckRow& row : rows.all) {
    ASSERT_TRUE(row.figures.ratio.has_value()) << row.name;
    worst = std::max(worst, *row.figures.ratio);
  }
  EXPECT_GT(worst, 0.1) << "bf16 rounds, so some op comes near half a step";
  EXPECT_LE(worst, 1);
}

TEST(GpuSections, AKernelThatIsNotThereTakesNoOtherWithIt) {
  Reset();
  standin_set_memory(int64_t{8} << 30);
  standin_cublas_find(/*count=*/1, /*CUBLAS_STATUS_INTERNAL_ERROR*/ 14);
  KeptRows rows;
  CheckKernelNumbers(&rows);
  int failed = 0;
  for (const CheckRow& row : rows.all) {
    if (row.result == CheckResult::kPass) continue;
    ++failed;
    EXPECT_EQ(row.name.rfind("linear", 0), 0u) << row.name;
    EXPECT_NE(row.said.find("CUBLAS_STATUS_INTERNAL_ERROR"), std::string::npos) << row.said;
  }
  EXPECT_EQ(failed, 12);  // six kinds of products, in two types
  EXPECT_GE(rows.all.size(), 80u);
}

// The stand-in's time is simulated, so rates mean nothing; but each is reported.
TEST(GpuSections, EveryRateIsTaken) {
  Reset();
  KeptRows rows;
  CheckKernelRates({.batch = 4, .positions = 8, .heads = 1, .vocabulary = 40, .large = 16}, &rows);
  EXPECT_EQ(rows.all.size(), 16u + 4u);
  for (const CheckRow& row : rows.all) {
    EXPECT_TRUE(row.said.find("B/s") != std::string::npos ||
                row.said.find("FLOP/s") != std::string::npos)
        << row.name << ": " << row.said;
  }
}

AnyShape TinyGpt() {
  AnyShape shape = GptShape{
      .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 256, .microbatch = 2};
  shape.dtype = DType::kBF16;
  return shape;
}

TEST(GpuSections, SpeedIsHeldAgainstItsGoal) {
  for (const double goal : {1.0, 1e12}) {
    Reset();
    KeptRows rows;
    CheckSpeed(STRINGLINE_SOURCE_DIR "/schedules", {{"tiny", TinyGpt(), 2, goal}}, &rows);
    ASSERT_GE(rows.all.size(), 10u);  // among them the products of the model
    EXPECT_EQ(rows.all[0].result, goal == 1 ? CheckResult::kPass : CheckResult::kFail)
        << rows.all[0].said;
    EXPECT_NE(rows.all[0].said.find("a step captured"), std::string::npos) << rows.all[0].said;
    EXPECT_EQ(rows.all.back().name, "tiny, not captured");
    EXPECT_EQ(rows.all.back().result, CheckResult::kPass) << rows.all.back().said;
  }
}

TEST(GpuSections, TorchIsAskedByAProgramOfItsOwn) {
  const struct {
    const char* command;
    CheckResult result;
    const char *name, *said;
  } cases[] = {
      {"echo eager 250000", CheckResult::kPass, "GPT-2 124M in torch, eager", "250000 tokens/s"},
      {"sh -c 'echo torch has no GPU; exit 77'", CheckResult::kSkip, "torch", "torch has no GPU"},
      {"sh -c 'echo oh; exit 1'", CheckResult::kFail, "torch",
       "sh -c 'echo oh; exit 1' failed: oh"},
      {"true", CheckResult::kFail, "torch", "true failed: it says nothing"},
  };
  for (const auto& one : cases) {
    KeptRows rows;
    CheckTorch(one.command, &rows);
    ASSERT_EQ(rows.all.size(), 1u) << one.command;
    EXPECT_EQ(rows.all[0].result, one.result) << one.command;
    EXPECT_EQ(rows.all[0].name, one.name);
    EXPECT_EQ(rows.all[0].said, one.said);
  }
}

TEST(GpuSections, APredictionIsHeldAgainstTheMeasuredStep) {
  Reset();
  KeptRows rows;
  CheckPrediction(STRINGLINE_SOURCE_DIR "/schedules", TinyGpt(), &rows);
  ASSERT_EQ(rows.all.size(), 2u);
  for (const CheckRow& row : rows.all) {
    EXPECT_NE(row.said.find("ms, measured "), std::string::npos) << row.name << ": " << row.said;
  }
}

TEST(GpuSections, OverlapIsMeasuredOverASlowWire) {
  Reset();
  DecoderShape shape;
  shape.layers = 4;
  shape.width = 16;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.hidden = 24;
  shape.context = 8;
  shape.vocabulary = 256;
  shape.microbatch = 2;
  shape.moe.experts = 4;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 8;
  KeptRows rows;
  CheckOverlap(STRINGLINE_SOURCE_DIR "/schedules", shape, 4, 4, &rows);
  ASSERT_EQ(rows.all.size(), 4u);
  for (const CheckRow& row : rows.all) {
    EXPECT_NE(row.said.find("of the all-to-alls exposed"), std::string::npos)
        << row.name << ": " << row.said;
  }
}

TEST(GpuSections, CopiesAreMeasuredBesideComputation) {
  Reset();
  const AnyShape shape = GptShape{
      .layers = 4, .width = 16, .heads = 2, .context = 8, .vocabulary = 256, .microbatch = 2};
  KeptRows rows;
  CheckCopies(shape, 3, 4, &rows);
  ASSERT_EQ(rows.all.size(), 2u);
  for (const CheckRow& row : rows.all) {
    EXPECT_NE(row.said.find("; losses equal in every bit"), std::string::npos) << row.said;
  }
}

TEST(GpuSections, PlacesChangeNoLoss) {
  const AnyShape shape = GptShape{
      .layers = 4, .width = 16, .heads = 2, .context = 8, .vocabulary = 256, .microbatch = 2};
  for (const int gpus : {1, 2}) {
    Reset();
    standin_set_devices(gpus);
    KeptRows rows;
    CheckPlaces(STRINGLINE_SOURCE_DIR "/schedules", shape, &rows);
    ASSERT_EQ(rows.all.size(), 2u);
    EXPECT_EQ(rows.all[0].result, CheckResult::kPass) << rows.all[0].said;
    EXPECT_EQ(rows.all[0].said.find("32 SMs a rank: "), 0u) << rows.all[0].said;
    EXPECT_EQ(rows.all[1].result, gpus == 1 ? CheckResult::kSkip : CheckResult::kPass);
    EXPECT_EQ(rows.all[1].said.find(gpus == 1 ? "the machine has one GPU" : "2 GPUs: "), 0u)
        << rows.all[1].said;
  }
}

TEST(GpuSections, AnErrorOfTheDeviceIsARowThatSaysSo) {
  standin_reset(1);
  standin_fail_call(30, 700);
  KeptRows rows;
  CheckDevice(&rows);
  ASSERT_FALSE(rows.all.empty());
  EXPECT_EQ(rows.all.back().result, CheckResult::kFail);
  EXPECT_NE(rows.all.back().said, "");
  standin_reset(1);
}

}  // namespace
}  // namespace stringline
