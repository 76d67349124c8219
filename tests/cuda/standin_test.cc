// The stand-in itself: it detects the faults for which it exists.
#include "tests/cuda/standin/standin.h"

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "executor/cuda/bodies/host_twin.h"
#include "gtest/gtest.h"

namespace {

#define EXPECT_CUDA(expected, call) EXPECT_EQ(cudaGetErrorName(expected), cudaGetErrorName(call))
#define ASSERT_DONE(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess")

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaSuccess, cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  return stream;
}

cudaEvent_t NewEvent(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  EXPECT_CUDA(cudaSuccess, cudaEventCreateWithFlags(&event, flags));
  return event;
}

struct Numbers {
  std::vector<int> order;
};
struct Entry {
  Numbers* numbers;
  int number;
};
void Note(void* entry) {
  const auto& own = *static_cast<Entry*>(entry);
  own.numbers->order.push_back(own.number);
}

TEST(StandIn, WorkWaitsUntilSomebodySynchronizes) {
  standin_reset(1);
  const cudaStream_t stream = NewStream();
  Numbers numbers;
  Entry entries[] = {{&numbers, 0}, {&numbers, 1}};
  for (Entry& entry : entries) ASSERT_DONE(cudaLaunchHostFunc(stream, Note, &entry));
  EXPECT_EQ(standin_ops_pending(), 2);
  EXPECT_TRUE(numbers.order.empty());
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(stream));
  ASSERT_DONE(cudaStreamSynchronize(stream));
  EXPECT_EQ(numbers.order, (std::vector<int>{0, 1}));
  EXPECT_EQ(standin_ops_pending(), 0);
}

// The number of seeds, of 200, with which the second stream's work runs first.
int FirstIsLast(bool wait) {
  int count = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    standin_reset(seed);
    const cudaStream_t a = NewStream(), b = NewStream();
    const cudaEvent_t event = NewEvent();
    Numbers numbers;
    Entry entries[] = {{&numbers, 0}, {&numbers, 1}};
    (void)cudaLaunchHostFunc(a, Note, &entries[0]);
    (void)cudaEventRecord(event, a);
    if (wait) (void)cudaStreamWaitEvent(b, event, 0);
    (void)cudaLaunchHostFunc(b, Note, &entries[1]);
    (void)cudaDeviceSynchronize();
    EXPECT_EQ(numbers.order.size(), 2u);
    count += numbers.order[0] == 1 ? 1 : 0;
  }
  return count;
}

TEST(StandIn, AMissingWaitIsFoundBySomeSeed) {
  EXPECT_EQ(FirstIsLast(/*wait=*/true), 0);
  EXPECT_GT(FirstIsLast(/*wait=*/false), 20);
}

TEST(StandIn, AWaitIsForWhatWasRecordedBeforeIt) {
  int early = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    standin_reset(seed);
    const cudaStream_t a = NewStream(), b = NewStream();
    const cudaEvent_t event = NewEvent();
    Numbers numbers;
    Entry entries[] = {{&numbers, 0}, {&numbers, 1}};
    // Before the record a wait has no effect, and a later record does not change that.
    ASSERT_DONE(cudaStreamWaitEvent(b, event, 0));
    ASSERT_DONE(cudaLaunchHostFunc(b, Note, &entries[1]));
    ASSERT_DONE(cudaLaunchHostFunc(a, Note, &entries[0]));
    ASSERT_DONE(cudaEventRecord(event, a));
    ASSERT_DONE(cudaDeviceSynchronize());
    early += numbers.order[0] == 1 ? 1 : 0;
  }
  EXPECT_GT(early, 10);
}

TEST(StandIn, TheLegacyStreamHoldsUpNobody) {
  int unset = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    standin_reset(seed);
    const cudaStream_t stream = NewStream();
    void *from = nullptr, *to = nullptr;
    ASSERT_DONE(cudaMalloc(&from, 4));
    ASSERT_DONE(cudaHostAlloc(&to, 4, cudaHostAllocDefault));
    ASSERT_DONE(cudaMemset(from, 0, 4));
    ASSERT_DONE(cudaMemcpyAsync(to, from, 4, cudaMemcpyDeviceToHost, stream));
    ASSERT_DONE(cudaStreamSynchronize(stream));
    unset += *static_cast<int*>(to) != 0 ? 1 : 0;
  }
  EXPECT_GT(unset, 10);
}

TEST(StandIn, TimesFollowStreamsAndEvents) {
  standin_reset(3);
  standin_set_op_ns(1'000'000);
  const cudaStream_t a = NewStream(), b = NewStream();
  const cudaEvent_t base = NewEvent(cudaEventDefault), end = NewEvent(cudaEventDefault);
  Numbers numbers;
  Entry entry = {&numbers, 0};
  ASSERT_DONE(cudaEventRecord(base, a));
  for (int i = 0; i < 3; ++i) ASSERT_DONE(cudaLaunchHostFunc(a, Note, &entry));
  ASSERT_DONE(cudaEventRecord(end, a));
  ASSERT_DONE(cudaStreamWaitEvent(b, end, 0));
  ASSERT_DONE(cudaLaunchHostFunc(b, Note, &entry));
  float ms = 0;
  EXPECT_CUDA(cudaErrorNotReady, cudaEventElapsedTime(&ms, base, end));
  ASSERT_DONE(cudaEventRecord(end, b));
  ASSERT_DONE(cudaStreamSynchronize(b));
  ASSERT_DONE(cudaEventElapsedTime(&ms, base, end));
  EXPECT_NEAR(ms, 4, 0.1);
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, base, NewEvent()));
}

TEST(StandIn, ErrorsComeOnDemandAndAreKept) {
  standin_reset(1);
  standin_fail_call(2, cudaErrorInvalidValue);
  const cudaStream_t stream = NewStream();
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamSynchronize(stream));
  EXPECT_STREQ(standin_failed_call(), "cudaStreamSynchronize");
  EXPECT_CUDA(cudaErrorInvalidValue, cudaPeekAtLastError());
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetLastError());
  EXPECT_CUDA(cudaSuccess, cudaGetLastError());
  ASSERT_DONE(cudaStreamSynchronize(stream));
  // A kernel's error persists.
  standin_fail_call(1, cudaErrorIllegalAddress);
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaGetLastError());
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaGetLastError());
}

// A kernel is any address; its twin does nothing.
TEST(StandIn, MoreThanTheUsualSharedMemoryMustBeAskedFor) {
  standin_reset(1);
  static char any;
  const void* const kernel = &any;
  ASSERT_TRUE(stringline_host_twin != nullptr);
  stringline_host_twin(
      kernel, [](const unsigned*, const unsigned*, void* const*) {}, nullptr, 0);
  const cudaStream_t stream = NewStream();
  const auto launch = [&](size_t bytes) {
    return cudaLaunchKernel(kernel, dim3(1), dim3(32), nullptr, bytes, stream);
  };
  const auto ask = [&](int bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  ASSERT_DONE(launch(48 << 10));
  EXPECT_CUDA(cudaErrorInvalidValue, launch((48 << 10) + 1));
  ASSERT_DONE(ask(160 << 10));
  ASSERT_DONE(launch(160 << 10));
  EXPECT_CUDA(cudaErrorInvalidValue, launch((160 << 10) + 1));
  EXPECT_CUDA(cudaErrorInvalidValue, ask((227 << 10) + 1));
  EXPECT_CUDA(cudaErrorInvalidConfiguration,
              cudaLaunchKernel(kernel, dim3(0), dim3(32), nullptr, 0, stream));
}

TEST(StandIn, MemoryIsCounted) {
  standin_reset(1);
  standin_set_memory(1000);
  void *first = nullptr, *second = nullptr;
  ASSERT_DONE(cudaMalloc(&first, 600));
  EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMalloc(&second, 401));
  size_t free = 0, total = 0;
  ASSERT_DONE(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 400u);
  EXPECT_EQ(total, 1000u);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(first, first, 601, cudaMemcpyDefault));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(&free, first, 8, cudaMemcpyHostToDevice));
  ASSERT_DONE(cudaFree(first));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(first));
  EXPECT_EQ(standin_alive(), 0);
}

class Captured : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(5);
    (void)cudaGetLastError();
    a = NewStream();
    b = NewStream();
    fork = NewEvent();
    join = NewEvent();
  }
  void Begin() {
    ASSERT_DONE(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    ASSERT_DONE(cudaEventRecord(fork, a));
    ASSERT_DONE(cudaStreamWaitEvent(b, fork, 0));
  }
  void Join() {
    ASSERT_DONE(cudaEventRecord(join, b));
    ASSERT_DONE(cudaStreamWaitEvent(a, join, 0));
  }
  cudaStream_t a, b;
  cudaEvent_t fork, join;
  cudaGraph_t graph = nullptr;
  Numbers numbers;
  Entry entries[3] = {{&numbers, 0}, {&numbers, 1}, {&numbers, 2}};
};

TEST_F(Captured, AGraphRunsAsOftenAsItIsLaunched) {
  Begin();
  ASSERT_DONE(cudaLaunchHostFunc(b, Note, &entries[0]));
  Join();
  ASSERT_DONE(cudaLaunchHostFunc(a, Note, &entries[1]));
  ASSERT_DONE(cudaStreamEndCapture(a, &graph));
  cudaGraphExec_t exec = nullptr;
  ASSERT_DONE(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_DONE(cudaGraphDestroy(graph));
  ASSERT_DONE(cudaDeviceSynchronize());
  EXPECT_TRUE(numbers.order.empty());
  for (int i = 0; i < 3; ++i) ASSERT_DONE(cudaGraphLaunch(exec, a));
  ASSERT_DONE(cudaStreamSynchronize(a));
  EXPECT_EQ(numbers.order, (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

TEST_F(Captured, WhatIsNotJoinedIsRefused) {
  Begin();
  ASSERT_DONE(cudaLaunchHostFunc(b, Note, &entries[0]));
  EXPECT_CUDA(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(a, &graph));
  ASSERT_DONE(cudaLaunchHostFunc(b, Note, &entries[0]));
  ASSERT_DONE(cudaStreamSynchronize(b));
  EXPECT_EQ(numbers.order.size(), 1u);
}

TEST_F(Captured, ForbiddenCallsEndIt) {
  const auto forbidden = [this](cudaError_t expected, const std::function<cudaError_t()>& call) {
    Begin();
    EXPECT_CUDA(expected, call());
    EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaLaunchHostFunc(a, Note, &entries[0]));
    EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(a, &graph));
  };
  void* memory = nullptr;
  const cudaEvent_t outside = NewEvent();
  const cudaStream_t other = NewStream();
  ASSERT_DONE(cudaEventRecord(outside, other));
  forbidden(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(other); });
  forbidden(cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); });
  forbidden(cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&memory, 8); });
  forbidden(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(a, outside, 0); });
  forbidden(cudaErrorStreamCaptureImplicit,
            [&] { return cudaLaunchHostFunc(nullptr, Note, &entries[0]); });
  Begin();
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaEventQuery(fork));
  Join();
  ASSERT_DONE(cudaStreamEndCapture(a, &graph));
}

}  // namespace
