// Steps on the CUDA device, issued or replayed, allocate no memory, and neither do products. Counts
// every `operator new` of this binary except the stand-in's.
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/copies/group.h"
#include "executor/cuda/products.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/recorder.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "tests/counted_new.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {

bool IsCounted() { return !standin_inside(); }

namespace {

TEST(CudaAllocation, AStepAllocatesNothing) {
  for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
    standin_reset(1);
    const Plan plan = LibraryPlan(schedule, 4, 8).value();
    auto device = CudaDevice::Make();
    ASSERT_TRUE(device.ok()) << device.status();
    CopyGroups groups(device->get());
    NoWork work;
    Recorder recorder(plan);
    const auto step = Interpreter::Make(plan, &work, device->get(), &groups, &recorder);
    ASSERT_TRUE(step.ok()) << step.status();
    // Beside the step, collectives of all kinds between two ranks.
    Group* const group = groups.New({0, 1});
    auto* const memory = static_cast<char*>(*(*device)->Allocate(8192));
    const auto* const counts = reinterpret_cast<int32_t*>(memory + 6144);
    const RowCounts rows = {counts, counts, 1, 4};
    std::vector<Call> calls;
    for (const CallKind kind : {CallKind::kAllGather, CallKind::kAllToAllCounted,
                                CallKind::kAllReduce, CallKind::kReduceScatter}) {
      for (int m = 0; m < 2; ++m) {
        Call& call = calls.emplace_back();
        call.kind = kind;
        call.bytes = 64;
        call.from = memory + 2048 * m;
        call.to = memory + 2048 * m + 1024;
        call.rows = &rows;
      }
    }
    const StreamId streams[] = {(*device)->NewStream({}, 32), (*device)->NewStream({}, 32)};
    int captured = -1;
    for (int i = 0; i < 5; ++i) {
      const int64_t before = allocations;
      if (i < 4) {
        (*step)->EnqueueStep();
        for (size_t c = 0; c < calls.size(); ++c) {
          group->Enqueue(static_cast<int>(c % 2), streams[c % 2], &calls[c]);
        }
      }
      if (i == 3) {
        const absl::StatusOr<int> graph = (*device)->Capture();
        ASSERT_TRUE(graph.ok()) << graph.status();
        captured = *graph;
      }
      if (captured >= 0) (*device)->Replay(captured);
      const absl::Status status = (*device)->Synchronize();
      ASSERT_TRUE(status.ok()) << status;
      // The first step makes events, and capturing makes a graph.
      const bool may = i == 0 || i == 3;
      EXPECT_EQ(allocations > before, may) << schedule << " step " << i;
    }
  }
}

TEST(CudaAllocation, ATrainingStepAllocatesNothing) {
  for (const TinyFamily family : kTinyFamilies) {
    standin_reset(1);
    standin_cublas_reset();
    auto backend = CudaBackend::Make();
    ASSERT_TRUE(backend.ok()) << backend.status();
    const Plan plan = LibraryPlan("dualpipe_v", 2, 4).value();
    const auto programs = BuildModelStages(TinyModel(family, 4), {1, 1, 1, 1});
    ASSERT_TRUE(programs.ok()) << programs.status();
    const auto trainer = Trainer::Make(plan, *programs, {}, *std::move(backend));
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    for (int step = 0; step < 5; ++step) {
      const int64_t before = allocations;
      const absl::Status status = (*trainer)->ComputeGradients();
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE((*trainer)->Update(1e-3).ok());
      // The first step makes events, and the third is captured.
      EXPECT_EQ(allocations > before, step == 0 || step == 2) << NameOf(family) << " step " << step;
    }
  }
}

// The same with our own kernel for attention, and an update that writes working copies.
TEST(CudaAllocation, ATrainingStepInBf16AllocatesNothing) {
  standin_reset(1);
  standin_cublas_reset();
  auto backend = CudaBackend::Make();
  ASSERT_TRUE(backend.ok()) << backend.status();
  AnyShape shape = TinyModel(TinyFamily::kMoe, 4);
  shape.dtype = DType::kBF16;
  const auto programs = BuildModelStages(shape, {1, 1, 1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto trainer =
      Trainer::Make(LibraryPlan("dualpipe_v", 2, 4).value(), *programs, {}, *std::move(backend));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  int64_t allocated[5] = {};
  for (int64_t& of_step : allocated) {
    const int64_t before = allocations;
    const absl::Status status = (*trainer)->ComputeGradients();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE((*trainer)->Update(1e-3).ok());
    of_step = allocations - before;
  }
  EXPECT_GT(allocated[0], 0);
  EXPECT_EQ(allocated[3], 0);
  EXPECT_EQ(allocated[4], 0);
}

TEST(CudaAllocation, AProductAllocatesNothing) {
  standin_reset(1);
  standin_cublas_reset();
  const auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  const auto products = cuda::Products::Make();
  ASSERT_TRUE(products.ok()) << products.status();
  const auto take = [&device] { return *(*device)->Allocate(4096); };
  cuda::ProductRun run = {take(), take(), take(), take(), take(), take()};
  const auto first = (*products)->Choose({cuda::ProductKind::kForward, 4, 64, 4, true, true});
  const auto second = (*products)->Choose({cuda::ProductKind::kForward, 4, 0, 4, false, true});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  const int64_t before = allocations;
  for (const cuda::Product* const product : {*first, *second}) {
    const absl::Status status = (*products)->Run(product, run, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    run.bias = nullptr;
  }
  EXPECT_EQ(allocations.load(), before);
  ASSERT_TRUE((*device)->Synchronize().ok());
}

}  // namespace
}  // namespace stringline
