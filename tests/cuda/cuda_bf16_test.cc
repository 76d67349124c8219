// Ops in bf16 through the CUDA backend's kernels, run by the host, against the CPU's kernels in
// float32 for the same numbers: results in bf16 are rounded once.
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/bf16.h"
#include "gtest/gtest.h"
#include "stages/ops.h"
#include "tests/cuda/cuda_op_cases.h"

namespace stringline {
namespace {

using cpu::Array;

// Within half a step of bf16 of the result in float32, plus float32's own rounding.
void ExpectRounded(const Array& seen, const Array& expected) {
  const bool bf16 = seen.type.dtype == DType::kBF16;
  const Array wide = bf16 ? InF32(seen) : seen;
  const int64_t count = expected.type.elements();
  float largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    const float want = std::abs(expected.f32()[i]);
    if (std::isfinite(want)) largest = std::max(largest, want);
  }
  for (int64_t i = 0; i < count; ++i) {
    const float want = expected.f32()[i], got = wide.f32()[i];
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << "element " << i << ": " << got;
      continue;
    }
    const float step = bf16 && want != 0 ? std::ldexp(1.0f, std::ilogb(want) - 7) : 0.0f;
    ASSERT_NEAR(got, want, step / 2 + 1e-5f * largest) << "element " << i;
  }
}

using CudaBf16Test = OpCasesTest;

TEST_F(CudaBf16Test, EveryOpRoundsWhatFloat32Gives) {
  std::map<Op, int> cases;
  for (const OpCase& any : cases_) {
    const std::optional<OpCase> c = InBf16(any);
    cases[any.op] += c.has_value() ? 1 : 0;
    if (!c.has_value()) continue;
    const OpCase same = InF32(*c);
    for (const bool accumulate : {false, true}) {
      if (accumulate && RowOf(c->op).accumulates == 0) continue;
      SCOPED_TRACE(absl::StrCat(ToString(*c), accumulate ? ", added" : ""));
      std::vector<Array> before = OutputsBefore(*c, accumulate, 7), seen;
      const absl::Status status = RunOnCuda(*c, before, accumulate, &seen);
      ASSERT_TRUE(status.ok()) << status;
      // Outputs in bf16, which cannot be added to, are overwritten.
      bool adds = accumulate;
      std::vector<Array> added;
      for (const Array& output : before) {
        const bool bf16 = output.type.dtype == DType::kBF16;
        added.push_back(bf16 ? InF32(output) : output);
        adds = adds && !(bf16 && before.size() == 1);
      }
      const std::vector<Array> expected = RunOnCpu(same, added, adds);
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(absl::StrCat("output ", i));
        if (seen[i].type.dtype == DType::kI32) continue;
        ExpectRounded(seen[i], expected[i]);
      }
      if (HasFatalFailure()) return;
    }
  }
  std::string without;
  for (const OpRow& row : AllOps()) {
    if (cases[row.op] == 0 && !IsOfAnyTensor(row.op)) absl::StrAppend(&without, row.name, " ");
  }
  EXPECT_EQ(without,
            "constant route route_grad choice_counts balance_loss balance_loss_grad dispatch_plan "
            "gather_weights scatter_weights all_to_all_counts ");
}

// Both ways, and to the same type.
TEST_F(CudaBf16Test, CastsAreExactOrRoundToTheNearest) {
  const Array x = Random({3, 70});
  for (const Array& from : {x, InBf16(x)}) {
    for (const double bits : {16.0, 32.0}) {
      const OpCase cast = {Op::kCast, {from}, {bits}};
      std::vector<Array> seen;
      ASSERT_TRUE(RunOnCuda(cast, OutputsBefore(cast, false, 1), false, &seen).ok());
      const std::vector<Array> expected = RunOnCpu(cast, OutputsBefore(cast, false, 1), false);
      ASSERT_EQ(seen[0].type, expected[0].type);
      EXPECT_EQ(std::memcmp(seen[0].data.get(), expected[0].data.get(),
                            static_cast<size_t>(seen[0].type.bytes())),
                0);
    }
  }
}

// A library with attention for heads of four channels, which records its runs.
struct NotedRun {
  cuda::AttentionProblem problem = {};
  cuda::AttentionRun run = {};
  int runs = 0;
  absl::Status status;
} noted;

class NotingLibrary final : public cuda::AttentionLibrary {
 public:
  absl::StatusOr<const cuda::AttentionPlan*> Choose(
      const cuda::AttentionProblem& problem) override {
    if (problem.size != 4) return absl::UnimplementedError("not four channels");
    plan_ = {problem, 1000};
    return &plan_;
  }
  absl::Status Run(const cuda::AttentionPlan* plan, const cuda::AttentionRun& run,
                   cudaStream_t) const override {
    noted = {plan->problem, run, noted.runs + 1, noted.status};
    return noted.status;
  }
  std::string Describe() const override { return "noted\n"; }

 private:
  cuda::AttentionPlan plan_;
};

absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> MakeNoting() {
  return std::make_unique<NotingLibrary>();
}

TEST_F(CudaBf16Test, AttentionIsTheLibrarysWhereItHasOne) {
  noted = {};
  int by_library = 0;
  for (const OpCase& any : cases_) {
    if (!cuda::IsAttention(any.op)) continue;
    SCOPED_TRACE(ToString(any));
    const bool gradient = any.op == Op::kAttentionGrad;
    const OpCase c = *InBf16(any);
    const std::vector<int64_t>& qkv = c.inputs[gradient ? 1 : 0].type.shape;
    const auto heads = static_cast<int64_t>(c.attributes[0]);
    const auto keys = static_cast<int64_t>(c.attributes[1]);
    const int64_t size = qkv[2] / (heads + 2 * keys);
    std::vector<Array> seen;
    ASSERT_TRUE(RunOnCuda(c, OutputsBefore(c, false, 1), false, &seen, MakeNoting).ok());
    if (size == 4) ++by_library;
    ASSERT_EQ(noted.runs, by_library);
    // Outputs are written by the library alone.
    EXPECT_EQ(std::isnan(FromBf16(seen[0].bf16()[0])), size == 4);
    if (size != 4) continue;
    EXPECT_EQ(noted.problem, (cuda::AttentionProblem{gradient, qkv[0], qkv[1], heads, keys, size}));
    EXPECT_NE(noted.run.qkv, nullptr);
    EXPECT_NE(noted.run.y, nullptr);
    EXPECT_NE(noted.run.lse, nullptr);
    EXPECT_EQ(noted.run.dy != nullptr, gradient);
    EXPECT_EQ(noted.run.dqkv != nullptr, gradient);
    ASSERT_NE(noted.run.workspace, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(noted.run.workspace) % 256, 0);
    // In float32 the library is not used.
    std::vector<Array> own;
    ASSERT_TRUE(RunOnCuda(any, OutputsBefore(any, false, 1), false, &own, MakeNoting).ok());
    EXPECT_EQ(noted.runs, by_library);
    // Its error becomes the launch's.
    noted.status = absl::InternalError("no more");
    EXPECT_EQ(RunOnCuda(c, OutputsBefore(c, false, 1), false, &seen, MakeNoting),
              absl::InternalError(absl::StrCat("the launch of ", RowOf(c.op).name, ": no more")));
    noted.status = absl::OkStatus();
    by_library = noted.runs;
  }
  EXPECT_EQ(by_library, 4);  // two each
}

// No library has a plan for a past.
TEST_F(CudaBf16Test, AttentionWithAPastIsOurOwn) {
  int cases = 0;
  for (const OpCase& any : cases_) {
    if (!cuda::IsAttentionPast(any.op)) continue;
    SCOPED_TRACE(ToString(any));
    noted = {};
    const OpCase c = *InBf16(any);
    std::vector<Array> seen;
    ASSERT_TRUE(RunOnCuda(c, OutputsBefore(c, false, 1), false, &seen, MakeNoting).ok());
    EXPECT_EQ(noted.runs, 0);
    EXPECT_FALSE(std::isnan(FromBf16(seen[0].bf16()[0])));
    ++cases;
  }
  EXPECT_GE(cases, 6);
}

// `deterministic: off` is for gradients alone: a forward has the same bits either way.
TEST_F(CudaBf16Test, TheLibraryIsToldWhetherGradientsAreDeterministic) {
  int gradients = 0;
  for (const OpCase& any : cases_) {
    if (!cuda::IsAttention(any.op)) continue;
    for (const bool deterministic : {true, false}) {
      standin_reset(1);
      standin_cublas_reset();
      noted = {};
      const OpCase c = *InBf16(any);
      auto device = CudaDevice::Make();
      const auto kernels = CudaKernels::Make(
          device->get(), {.attention = MakeNoting, .deterministic = deterministic});
      ASSERT_TRUE(
          RunOnDevice(device->get(), kernels->get(), c, OutputsBefore(c, false, 1), false).ok());
      if (noted.runs == 0) continue;
      const bool gradient = any.op == Op::kAttentionGrad;
      EXPECT_EQ(noted.problem.deterministic, deterministic || !gradient);
      gradients += gradient ? 1 : 0;
    }
  }
  EXPECT_GT(gradients, 0);
}

// Beside the stand-ins cuDNN finds no GPU, or this build is without cuDNN.
TEST_F(CudaBf16Test, WithoutTheLibraryOurOwnKernelServes) {
  const absl::Status status = cuda::CudnnAttention().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(
      absl::StrContains(status.message(), "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)") ||
      absl::StrContains(status.message(), "this build has no cuDNN"))
      << status;
}

}  // namespace
}  // namespace stringline
