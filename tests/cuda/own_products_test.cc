// Products that the library refuses are computed by bodies of our own: against the CPU's kernels,
// in fp32 and bf16, written and added, and in whole training runs.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/ask/library_plan.h"
#include "stages/ops.h"
#include "tests/cuda/cuda_op_cases.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tools/gpu/gpu_run.h"

namespace stringline {
namespace {

using cpu::Array;

// All products of rows with one matrix.
bool IsProduct(Op op) {
  return op == Op::kLinear || op == Op::kLinearBias || op == Op::kLinearResidual ||
         op == Op::kLinearAdd || op == Op::kLinearInputGrad || op == Op::kLinearWeightGrad;
}

void ExpectNear(const Array& seen, const Array& expected) {
  const bool bf16 = seen.type.dtype == DType::kBF16;
  const Array wide = bf16 ? InF32(seen) : seen;
  for (int64_t i = 0; i < expected.type.elements(); ++i) {
    const float want = expected.f32()[i];
    // Half a step of bf16, and the order of a sum.
    ASSERT_NEAR(wide.f32()[i], want, (bf16 ? std::fabs(want) / 256 : 0) + 1e-4) << "element " << i;
  }
}

class OwnProducts : public OpCasesTest {
 protected:
  void SetUp() override {
    standin_reset(5);
    standin_cublas_reset();
    device_ = CudaDevice::Make().value();
    kernels_ = CudaKernels::Make(device_.get()).value();
  }
  RanOp Run(const OpCase& one, bool accumulate) {
    auto ran = RunOnDevice(device_.get(), kernels_.get(), one, OutputsBefore(one, accumulate, 7),
                           accumulate);
    SL_CHECK(ran.ok()) << ran.status();
    return *std::move(ran);
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
};

TEST_F(OwnProducts, AreTheCpus) {
  standin_cublas_refuse(0, 0, 0);
  std::set<std::pair<Op, bool>> seen;
  for (const OpCase& any : cases_) {
    if (!IsProduct(any.op)) continue;
    for (const OpCase& one : {any, InBf16(any).value()}) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && RowOf(one.op).accumulates == 0) continue;
        const bool bf16 = one.inputs[0].type.dtype == DType::kBF16;
        SCOPED_TRACE(
            absl::StrCat(ToString(one), bf16 ? " in bf16" : "", accumulate ? ", added" : ""));
        seen.insert({one.op, bf16});
        const RanOp ran = Run(one, accumulate);
        std::vector<Array> before = OutputsBefore(one, accumulate, 7);
        for (Array& output : before) {
          if (output.type.dtype == DType::kBF16) output = InF32(output);
        }
        const bool adds = accumulate && one.op == Op::kLinearWeightGrad;
        ExpectNear(ran.outputs[0], RunOnCpu(InF32(one), before, adds)[0]);
      }
    }
  }
  EXPECT_EQ(seen.size(), 12u);  // six ops in two types
  EXPECT_EQ(standin_cublas_products(), 0);
}

TEST_F(OwnProducts, AreThoseOfTheRefusedShapesAlone) {
  standin_cublas_refuse(/*m=*/3, /*n=*/5, /*k=*/7);
  for (const OpCase& one : cases_) {
    if (one.op == Op::kLinear) (void)Run(one, false);
  }
  EXPECT_EQ(standin_cublas_products(), 3) << "of four";
  const std::string said = kernels_->Describe();
  EXPECT_TRUE(absl::StrContains(said,
                                "\nby our own kernel: y = x w' of 5 rows, 7 inputs, 3 outputs: "
                                "cublasLtMatmulAlgoGetHeuristic: "
                                "it knows no algorithm\n"))
      << said;
  EXPECT_TRUE(absl::StrContains(said, "\ny = x w' of 16 rows, 24 inputs, 64 outputs: algorithm"))
      << said;
}

// The library adds to a gradient, but does not write it; and the other way round.
TEST_F(OwnProducts, HoldForAWrittenGradientAndAnAddedOneAlike) {
  const OpCase* product = nullptr;
  for (const OpCase& one : cases_) {
    if (one.op == Op::kLinearWeightGrad) product = &one;
  }
  ASSERT_NE(product, nullptr);
  const std::vector<Array> none = OutputsBefore(*product, true, 7);
  const Array by_library = Run(*product, true).outputs[0];
  standin_cublas_refuse(0, 0, 0);
  kernels_ = nullptr;  // and its table
  kernels_ = CudaKernels::Make(device_.get()).value();
  ExpectNear(Run(*product, true).outputs[0], by_library);
  ExpectNear(by_library, RunOnCpu(*product, none, true)[0]);
}

// A broken library is no reason to go on without it.
TEST_F(OwnProducts, DoNotHideAnErrorOfTheLibrary) {
  standin_cublas_find(/*count=*/1, /*CUBLAS_STATUS_INTERNAL_ERROR*/ 14);
  for (const OpCase& one : cases_) {
    if (!IsProduct(one.op)) continue;
    const auto ran =
        RunOnDevice(device_.get(), kernels_.get(), one, OutputsBefore(one, false, 7), false);
    EXPECT_TRUE(absl::StrContains(ran.status().message(), "CUBLAS_STATUS_INTERNAL_ERROR"))
        << ran.status();
  }
}

TEST(OwnProductsRun, TrainsAsWithTheLibrary) {
  const std::optional<Plan> plan = PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", "1f1b", 2, 4);
  ASSERT_TRUE(plan.has_value());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<double> losses[2];
    for (const bool refused : {false, true}) {
      standin_reset(1);
      standin_cublas_reset();
      if (refused) standin_cublas_refuse(0, 0, 0);
      RunConfig config;
      config.shape = GptShape{
          .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 256, .microbatch = 2};
      config.shape.dtype = dtype;
      config.steps = 6;
      const auto run = TrainOnGpu(config, *plan);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(run->result.not_captured, "");
      EXPECT_GT(run->result.host.captured_steps, 0);
      EXPECT_EQ(standin_cublas_products() == 0, refused);
      losses[refused ? 1 : 0] = run->result.losses_nats;
    }
    for (size_t i = 0; i < losses[0].size(); ++i) {
      EXPECT_NEAR(losses[1][i], losses[0][i], dtype == DType::kF32 ? 1e-5 : 2e-2) << "step " << i;
    }
  }
}

}  // namespace
}  // namespace stringline
