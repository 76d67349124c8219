// Every op through the CUDA backend's kernels, run by the host, against the CPU's kernel: with
// outputs overwritten and with outputs added to.
#include "executor/cuda/backend/cuda_kernels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "executor/engine/bf16.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "stages/ops.h"
#include "tests/cuda/cuda_op_cases.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

using cpu::Array;

void ExpectSame(const Array& seen, const Array& expected, float tolerance) {
  const int64_t count = expected.type.elements();
  if (expected.type.dtype == DType::kI32) {
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen.i32()[i], expected.i32()[i]) << i;
    return;
  }
  float largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(expected.f32()[i])) {
      largest = std::max(largest, std::abs(expected.f32()[i]));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const float want = expected.f32()[i], got = seen.f32()[i];
    // Elements that are not written are still NaN.
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << "element " << i << ": " << got;
    } else {
      ASSERT_NEAR(got, want, tolerance * largest) << "element " << i;
    }
  }
}

using CudaKernelsTest = OpCasesTest;

absl::Status StatusOnCuda(const OpCase& from) {
  std::vector<Array> outputs;
  return RunOnCuda(from, OutputsBefore(from, false, 1), false, &outputs);
}

// By the difference between three runs and two.
int64_t LaunchesOf(const OpCase& from) {
  int64_t ops[2] = {};
  for (const int more : {0, 1}) {
    standin_reset(1);
    standin_cublas_reset();
    auto device = CudaDevice::Make().value();
    const auto kernels = CudaKernels::Make(device.get(), {.attention = NoAttentionLibrary}).value();
    const absl::Status ran = RunOnDevice(device.get(), kernels.get(), from,
                                         OutputsBefore(from, false, 1), false, 2 + more)
                                 .status();
    SL_CHECK(ran.ok()) << ran;
    ops[more] = standin_ops_run();
  }
  return ops[1] - ops[0];
}

TEST_F(CudaKernelsTest, LaunchNoMoreThanANodeMay) {
  // Keys of three bytes; those of four would take three launches more.
  const Array tokens = Integers({1, 300}, 70'000);
  const OpCase sorted = {
      Op::kEmbeddingGrad, {tokens, cpu::MakeArray(cpu::F32({1, 300, 2}))}, {70'000}};
  cases_.push_back(sorted);
  int64_t most = 0;
  for (const OpCase& c : cases_) {
    const int64_t launches = LaunchesOf(c);
    EXPECT_GE(launches, 1) << ToString(c);
    EXPECT_LE(launches + (&c == &cases_.back() ? 3 : 0), kMostLaunchesOfNode) << ToString(c);
    most = std::max(most, launches);
  }
  EXPECT_GE(most, 8);
}

TEST_F(CudaKernelsTest, AreTheCpus) {
  for (const OpCase& c : cases_) {
    for (const bool accumulate : {false, true}) {
      if (accumulate && RowOf(c.op).accumulates == 0) continue;
      SCOPED_TRACE(absl::StrCat(ToString(c), accumulate ? ", added" : ""));
      const auto before = [&] { return OutputsBefore(c, accumulate, 7); };
      const std::vector<Array> expected = RunOnCpu(c, before(), accumulate);
      std::vector<Array> seen;
      const absl::Status status = RunOnCuda(c, before(), accumulate, &seen);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(absl::StrCat("output ", i));
        ExpectSame(seen[i], expected[i], 1e-5f);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// A parameter as the optimiser sees it, in memory of its own.
struct HeldBlock {
  std::vector<float> values, gradient, m, v;
  std::vector<uint16_t> working;
};

class CudaBlocks {
 public:
  CudaBlocks() {
    standin_reset(1);
    standin_cublas_reset();
    device_ = CudaDevice::Make().value();
    kernels_ = CudaKernels::Make(device_.get()).value();
    stream_ = device_->NewStream({}, 8);
  }
  template <typename T>
  absl::Span<T> Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    auto* const memory = static_cast<T*>(device_->Allocate(bytes).value());
    SL_CHECK(device_->CopyNow(memory, values.data(), bytes).ok());
    return {memory, values.size()};
  }
  // Calls `work(kernels, stream)` when the stream is issued, and waits for the end.
  template <typename F>
  void Run(F work) {
    const auto call = [&](NativeStream on) { work(*kernels_, on); };
    const Work enqueued = {[](const void* self, int64_t, NativeStream on) {
                             (*static_cast<const decltype(call)*>(self))(on);
                           },
                           &call, 0};
    device_->Launch(stream_, enqueued, nullptr);
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  CudaDevice& device() { return *device_; }
  CudaKernels& kernels() { return *kernels_; }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaKernels> kernels_;
  StreamId stream_;
};

TEST_F(CudaKernelsTest, UpdateAListOfParametersAsTheCpuDoes) {
  CudaBlocks cuda;
  const auto numbers = [&](int64_t count, bool squared) {
    const Array drawn = Random({count});
    std::vector<float> values(drawn.f32(), drawn.f32() + count);
    for (float& value : values) value = squared ? value * value : value;
    return values;
  };
  // Some of several chunks; one is a balance load, one is tied and does not count.
  std::vector<HeldBlock> held;
  std::vector<ParamBlock> on_cpu, on_cuda;
  for (const int64_t count : {1, 37, 8, 20000, 9000, 64}) {
    held.push_back({numbers(count, false), numbers(count, false), numbers(count, false),
                    numbers(count, true), std::vector<uint16_t>(count)});
  }
  for (size_t i = 0; i < held.size(); ++i) {
    HeldBlock& own = held[i];
    ParamBlock& block = on_cpu.emplace_back();
    block.balances = i == 2;
    block.decays = i % 2 == 0;
    block.counts = i != 2 && i != 4;
    ParamBlock& there = on_cuda.emplace_back(block);
    there.values = cuda.Put(own.values);
    there.gradient = cuda.Put(own.gradient);
    there.m = cuda.Put(own.m);
    there.v = cuda.Put(own.v);
    // Some have working copies in bf16.
    if (i % 3 != 2) there.working = cuda.Put(own.working);
    block.values = absl::MakeSpan(own.values);
    block.gradient = absl::MakeSpan(own.gradient);
    block.m = absl::MakeSpan(own.m);
    block.v = absl::MakeSpan(own.v);
  }
  ASSERT_TRUE(cuda.kernels().Prepare(on_cuda).ok());
  std::vector<double> expected(held.size());
  CpuKernels()->SumOfSquares(on_cpu, expected.data(), nullptr);
  auto* const sums = static_cast<double*>(
      cuda.device().AllocateHost(static_cast<int64_t>(held.size() * sizeof(double))).value());
  auto& step = *new (cuda.device().AllocateHost(int64_t{sizeof(UpdateStep)}).value()) UpdateStep;
  step.scale = 0.5;
  step.balance_rate = 0.25;
  for (step.number = 1; step.number <= 2; ++step.number) {
    cuda.Run([&](CudaKernels& kernels, NativeStream on) {
      if (step.number == 1) kernels.SumOfSquares(on_cuda, sums, on);
      kernels.Update(step, on_cuda, on);
    });
    CpuKernels()->Update(step, on_cpu, nullptr);
    for (size_t i = 0; i < held.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("parameter ", i, ", step ", step.number));
      EXPECT_NEAR(sums[i], expected[i], 1e-12 * expected[i]);
      EXPECT_EQ(expected[i] == 0, !on_cpu[i].counts);
      const auto compare = [&](absl::Span<const float> there, absl::Span<const float> here) {
        std::vector<float> seen(here.size());
        SL_CHECK(cuda.device()
                     .CopyNow(seen.data(), there.data(),
                              static_cast<int64_t>(seen.size() * sizeof(float)))
                     .ok());
        for (size_t k = 0; k < seen.size(); ++k) {
          ASSERT_NEAR(seen[k], here[k], 1e-6 * std::max(1.0f, std::abs(here[k]))) << k;
        }
      };
      compare(on_cuda[i].values, on_cpu[i].values);
      compare(on_cuda[i].gradient, on_cpu[i].gradient);
      compare(on_cuda[i].m, on_cpu[i].m);
      compare(on_cuda[i].v, on_cpu[i].v);
      const absl::Span<const uint16_t> working = on_cuda[i].working;
      std::vector<float> updated(working.size());
      std::vector<uint16_t> rounded(working.size()), seen(working.size());
      const auto bytes = static_cast<int64_t>(2 * working.size());
      SL_CHECK(cuda.device().CopyNow(updated.data(), on_cuda[i].values.data(), 2 * bytes).ok());
      SL_CHECK(cuda.device().CopyNow(seen.data(), working.data(), bytes).ok());
      ToBf16(updated.data(), static_cast<int64_t>(updated.size()), rounded.data());
      EXPECT_EQ(seen, rounded);
      std::fill(held[i].gradient.begin(), held[i].gradient.end(), 0.125f);
      SL_CHECK(cuda.device()
                   .CopyNow(on_cuda[i].gradient.data(), held[i].gradient.data(),
                            static_cast<int64_t>(held[i].gradient.size() * sizeof(float)))
                   .ok());
    }
  }
}

TEST_F(CudaKernelsTest, ClearTheRowsBehindThoseThatAreThere) {
  // Rows of floats, and of bf16.
  for (const int64_t row_bytes : {4, 20, 32, 2, 6, 16, 10}) {
    for (const int32_t there : {0, 3, 7, 2000}) {
      SCOPED_TRACE(absl::StrCat(there, " rows of ", row_bytes, " bytes"));
      CudaBlocks cuda;
      const int64_t most = there + 1100;  // more rows than tasks
      std::vector<uint16_t> values(static_cast<size_t>(most * row_bytes / 2), 0x4040);
      const auto rows = cuda.Put(values);
      const auto counts = cuda.Put(std::vector<int32_t>{there / 2, 0, there - there / 2});
      cuda.Run([&](CudaKernels& kernels, NativeStream on) {
        kernels.ClearBehind({reinterpret_cast<char*>(rows.data()), row_bytes, most, counts.data(),
                             static_cast<int64_t>(counts.size())},
                            on);
      });
      std::vector<uint16_t> seen(values.size());
      ASSERT_TRUE(cuda.device()
                      .CopyNow(seen.data(), rows.data(), static_cast<int64_t>(2 * seen.size()))
                      .ok());
      std::fill(values.begin() + there * row_bytes / 2, values.end(), uint16_t{0});
      EXPECT_EQ(seen, values);
    }
  }
}

TEST_F(CudaKernelsTest, RefuseTheRowsOfSeveralRanks) {
  const Array counts = Integers({4}, 3), received = Integers({2, 2}, 3);
  for (const OpCase& c : {OpCase{Op::kAllToAllCounts, {counts}, {2}},
                          OpCase{Op::kDispatch, {Random({9, 2}), counts, received}, {9}},
                          OpCase{Op::kCombine, {Random({9, 2}), counts, received}, {9}}}) {
    EXPECT_EQ(StatusOnCuda(c), absl::FailedPreconditionError(absl::StrCat(
                                   "the launch of ", RowOf(c.op).name,
                                   ": rows for 2 ranks: only a group of ranks can exchange them")));
  }
}

TEST_F(CudaKernelsTest, HaveACaseForEveryOp) {
  std::set<Op> with_case;
  for (const OpCase& c : cases_) with_case.insert(c.op);
  for (const OpRow& row : AllOps()) {
    if (IsOfAnyTensor(row.op)) continue;  // refused by name: HaveNoneForOpsOnAnyTensor
    EXPECT_NE(cuda::LaunchOf(row.op).in_f32, nullptr) << row.name;
    EXPECT_TRUE(with_case.contains(row.op)) << row.name;
  }
}

TEST_F(CudaKernelsTest, HaveNoneForOpsOnAnyTensor) {
  const OpCase reshape = {Op::kReshape, {cpu::MakeArray({DType::kF32, {2, 3}})}, {3, 2}};
  EXPECT_EQ(StatusOnCuda(reshape),
            absl::UnimplementedError("the CUDA backend has no kernel for reshape"));
}

}  // namespace
}  // namespace stringline
