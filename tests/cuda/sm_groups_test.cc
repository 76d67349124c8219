// Ranks with multiprocessors of their own: the streams that get them, their release, and the errors
// if they are unavailable.
#include "executor/cuda/sm_groups.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "stages/models/model.h"
#include "tests/cuda/cuda_op_cases.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

class SmGroupsTest : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(1);
    standin_cublas_reset();
    standin_set_devices(2);
  }
  void TearDown() override { EXPECT_EQ(standin_alive(), 0); }
};

// Four ranks on two GPUs: only compute streams have groups, two on each GPU.
TEST_F(SmGroupsTest, AreOfTheStreamsThatCompute) {
  auto device = CudaDevice::Make(std::vector<int>{0, 1}, 4, 32);
  ASSERT_TRUE(device.ok()) << device.status();
  for (int rank = 0; rank < 4; ++rank) {
    (*device)->MakeFor(rank);
    for (int again = 0; again < 2; ++again) {
      const cudaStream_t compute = (*device)->native((*device)->NewStream({}, 4));
      EXPECT_EQ(standin_device_of_stream(compute), rank / 2);
      EXPECT_EQ(standin_sms_of_stream(compute), 32);
      EXPECT_EQ(standin_sm_group_of_stream(compute), rank % 2);
      EXPECT_EQ(standin_priority(compute), 0);
    }
    const cudaStream_t messages = (*device)->native((*device)->NewUrgentStream({}, 4));
    EXPECT_EQ(standin_device_of_stream(messages), rank / 2);
    EXPECT_EQ(standin_sms_of_stream(messages), 0);
    EXPECT_EQ(standin_sm_group_of_stream(messages), -1);
  }
}

// Losses and parameters of three steps, the last of them replayed.
struct ThreeSteps {
  std::vector<double> losses;
  std::vector<std::vector<float>> params;
};

ThreeSteps TrainWith(int sms_per_rank, const std::string& places) {
  const Mesh mesh = {.expert = 2};
  const Plan plan = WithSums(LibraryPlan("dualpipe_v", 2, 4).value(), mesh);
  const auto stages = static_cast<int>(plan.stages.size());
  const auto programs =
      BuildModelStages(TinyModel(TinyFamily::kMoe, stages), std::vector<int>(stages, 1),
                       {.expert_ranks = mesh.expert});
  SL_CHECK(programs.ok()) << programs.status();
  auto backend = CudaBackend::Make({.ranks = 4, .sms_per_rank = sms_per_rank});
  SL_CHECK(backend.ok()) << backend.status();
  auto trainer = Trainer::Make(plan, *programs, {.seed = 5, .mesh = mesh}, *std::move(backend));
  SL_CHECK(trainer.ok()) << trainer.status();
  EXPECT_EQ((*trainer)->DescribePlaces(), places);
  ThreeSteps seen;
  for (int step = 0; step < 3; ++step) {
    int32_t next = step;
    for (int32_t m = 0; m < (*trainer)->microbatches(); ++m) {
      const MicrobatchId microbatch(m);
      for (int32_t& token : (*trainer)->tokens(microbatch)) token = next = (next * 5 + 3) % 64;
      for (int32_t& target : (*trainer)->targets(microbatch)) target = next = (next * 5 + 7) % 64;
    }
    const absl::Status status = (*trainer)->ComputeGradients();
    SL_CHECK(status.ok()) << status;
    seen.losses.push_back((*trainer)->loss_sum());
    const auto norm = (*trainer)->Update(1e-2);
    SL_CHECK(norm.ok()) << norm.status();
  }
  EXPECT_EQ((*trainer)->repeated_step().refusal(), "");
  for (int s = 0; s < stages; ++s) {
    const absl::Span<float> values = (*trainer)->param(StageId(s), 0);
    seen.params.emplace_back(values.begin(), values.end());  // the stand-in's memory is the host's
  }
  return seen;
}

// Multiprocessors that products leave to messages.
TEST_F(SmGroupsTest, ProductsAreToldWhatIsTheirs) {
  std::mt19937_64 random(5);
  const OpCase product = {
      Op::kLinear,
      {RandomArray({DType::kF32, {4, 8}}, &random), RandomArray({DType::kF32, {16, 8}}, &random)},
      {}};
  for (const int free_sms : {0, 16, 200}) {
    standin_reset(1);
    standin_cublas_reset();
    auto device = CudaDevice::Make();
    ASSERT_TRUE(device.ok()) << device.status();
    auto kernels = CudaKernels::Make(device->get(), {.free_sms = free_sms});
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    const auto ran = RunOnDevice(device->get(), kernels->get(), product,
                                 OutputsBefore(product, false, 1), false);
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ(standin_cublas_sms(), free_sms == 0 ? 0 : free_sms == 16 ? 116 : 1);
  }
}

TEST_F(SmGroupsTest, ChangeNoNumber) {
  const ThreeSteps expected = TrainWith(0, "");
  EXPECT_EQ(standin_cublas_sms(), 0);
  const ThreeSteps seen = TrainWith(32, "ranks 0 to 3 on GPU 0, 32 SMs each");
  EXPECT_EQ(standin_cublas_sms(), 32);  // products are cut for this number
  EXPECT_EQ(seen.losses, expected.losses);
  EXPECT_TRUE(seen.params == expected.params);
}

TEST_F(SmGroupsTest, WhatCannotBeHadIsSaid) {
  const struct {
    std::vector<int> gpus;
    int ranks, sms;
    const char* says;
  } cases[] = {
      {{0},
       4,
       40,
       "sms_per_rank: 40: GPU 0 has 132 SMs, which are so many for 3 of the 4 ranks on it"},
      {{1},
       1,
       136,
       "sms_per_rank: 136: GPU 1 has 132 SMs, which are so many for 0 of the 1 rank on it"},
      {{0, 1},
       6,
       48,
       "sms_per_rank: 48: GPU 1 has 132 SMs, which are so many for 2 of the 3 ranks on it"},
      {{0},
       2,
       12,
       "sms_per_rank: 12: GPU 0 has 132 SMs, and gives them out in multiples of 8, at least 8"},
      {{0},
       2,
       4,
       "sms_per_rank: 4: GPU 0 has 132 SMs, and gives them out in multiples of 8, at least 8"},
  };
  for (const auto& test : cases) {
    const auto device = CudaDevice::Make(test.gpus, test.ranks, test.sms);
    EXPECT_EQ(device.status(), absl::InvalidArgumentError(test.says));
    EXPECT_EQ(standin_alive(), 0);
  }
  EXPECT_TRUE(CudaDevice::Make(std::vector<int>{0}, 4, 32).ok());
  EXPECT_TRUE(CudaDevice::Make(std::vector<int>{0}, 1, 128).ok());
}

TEST_F(SmGroupsTest, ADriverWithoutThemIsNamed) {
  standin_driver_without("cuGreenCtxStreamCreate");
  EXPECT_EQ(CudaDevice::Make(std::vector<int>{0}, 4, 32).status(),
            absl::UnimplementedError(
                "sms_per_rank: this driver has no cuGreenCtxStreamCreate, so that ranks share all "
                "SMs: GPU 0 has 132 SMs; a driver for CUDA 13 would help"));
  EXPECT_TRUE(CudaDevice::Make(std::vector<int>{0}, 4).ok());
}

TEST_F(SmGroupsTest, WhicheverCallFailsThereIsOneClearStatus) {
  int of_driver = 0;
  for (int n = 1;; ++n) {
    standin_reset(1);
    standin_fail_call(n, 2);  // out of memory
    absl::Status status;
    {
      auto device = CudaDevice::Make(std::vector<int>{0}, 2, 16);
      status = device.status();
      if (device.ok()) {
        for (int rank = 0; rank < 2; ++rank) {
          (*device)->MakeFor(rank);
          (void)(*device)->NewStream({}, 4);
        }
        status = (*device)->Synchronize();
      }
    }
    if (standin_failed_call() == nullptr) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    const std::string call = standin_failed_call();
    const bool gives_back = absl::StrContains(call, "Destroy");
    EXPECT_EQ(standin_alive() > 0, gives_back) << call;  // no other resource is left
    if (status.ok()) {
      EXPECT_TRUE(gives_back || call == "cudaStreamQuery" || call == "cudaSetDevice" ||
                  call == "cudaGetDevice")
          << call;
      continue;
    }
    if (absl::StartsWith(call, "cuD") || absl::StartsWith(call, "cuG")) {
      ++of_driver;
      EXPECT_EQ(status.message(), absl::StrCat(call, ": cudaErrorMemoryAllocation"));
    }
  }
  EXPECT_EQ(of_driver, 9);  // three at first, and for each rank description, context and stream
}

}  // namespace
}  // namespace stringline
