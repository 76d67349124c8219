// The stand-in with several GPUs: the objects of a GPU, and their use by another.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "executor/cuda/copies/kernels.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

#define EXPECT_GIVES(expected, call) \
  EXPECT_STREQ(cudaGetErrorName(expected), cudaGetErrorName(call))

// Two GPUs with a stream, a timed event and 256 bytes each; the first is current.
class StandInDevices : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(1);
    standin_set_devices(2);
    for (int device = 1; device >= 0; --device) {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithPriority(&streams_[device], cudaStreamNonBlocking, 0),
                cudaSuccess);
      ASSERT_EQ(cudaEventCreateWithFlags(&events_[device], cudaEventDefault), cudaSuccess);
      void* memory = nullptr;
      ASSERT_EQ(cudaMalloc(&memory, 256), cudaSuccess);
      memory_[device] = static_cast<float*>(memory);
      ASSERT_EQ(cudaMemsetAsync(memory, 0, 256, streams_[device]), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(streams_[device]), cudaSuccess);
    }
  }
  // Adds a float of each GPU's memory into the memory of `to`, on the stream of `on`.
  cudaError_t Sum(int on, int to) {
    SumShare share;
    share.from[0] = memory_[0];
    share.from[1] = memory_[1];
    share.to[0] = memory_[to];
    share.summands = 2;
    share.targets = share.count = 1;
    LaunchSum(share, streams_[on]);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) return launched;
    (void)cudaStreamSynchronize(streams_[on]);  // errors of the work are returned by later calls
    return cudaGetLastError();
  }

  cudaStream_t streams_[2];
  cudaEvent_t events_[2];
  float* memory_[2];
};

TEST_F(StandInDevices, WhatIsMadeIsOfTheCurrentOne) {
  int count = 0;
  EXPECT_GIVES(cudaSuccess, cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  EXPECT_GIVES(cudaErrorInvalidDevice, cudaSetDevice(2));
  EXPECT_GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
  for (int device = 0; device < 2; ++device) {
    EXPECT_EQ(standin_device_of_stream(streams_[device]), device);
    EXPECT_EQ(standin_device_of_memory(memory_[device] + 10), device);
    EXPECT_EQ(standin_memory_used(device), 256);
    size_t free = 0, total = 0;
    EXPECT_GIVES(cudaSuccess, cudaSetDevice(device));
    EXPECT_GIVES(cudaSuccess, cudaMemGetInfo(&free, &total));
    EXPECT_EQ(total - free, 256u);
  }
  int here = 0;
  EXPECT_EQ(standin_device_of_memory(&here), -1);
  EXPECT_GIVES(cudaSuccess, cudaFree(memory_[0]));  // whichever is current
  EXPECT_EQ(standin_memory_used(0), 0);
}

TEST_F(StandInDevices, AnEventIsRecordedOnItsOwn) {
  EXPECT_GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(events_[0], streams_[1]));
  for (int device = 0; device < 2; ++device) {
    EXPECT_GIVES(cudaSuccess, cudaEventRecord(events_[device], streams_[device]));
  }
  EXPECT_GIVES(cudaSuccess, cudaStreamWaitEvent(streams_[1], events_[0], cudaEventWaitDefault));
  for (const cudaStream_t stream : streams_)
    EXPECT_GIVES(cudaSuccess, cudaStreamSynchronize(stream));
  float ms = 0;
  EXPECT_GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, events_[0], events_[1]));
}

TEST_F(StandInDevices, AKernelIsLaunchedOnTheCurrentOne) {
  for (int device = 0; device < 2; ++device) {
    for (const int peer : {1 - device}) {
      EXPECT_GIVES(cudaSuccess, cudaSetDevice(device));
      EXPECT_GIVES(cudaSuccess, cudaDeviceEnablePeerAccess(peer, 0));
    }
  }
  EXPECT_GIVES(cudaErrorInvalidResourceHandle, Sum(0, 0));
  EXPECT_GIVES(cudaSuccess, Sum(1, 0));
}

TEST_F(StandInDevices, AKernelUsesWhatItHasAccessTo) {
  EXPECT_GIVES(cudaErrorIllegalAddress, Sum(0, 0));
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress),
               "a kernel on GPU 0 uses memory of GPU 1, to which it has no access");
}

TEST_F(StandInDevices, AccessIsOneWayAndCannotAlwaysBeHad) {
  int can = 0;
  EXPECT_GIVES(cudaSuccess, cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_GIVES(cudaSuccess, cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  (void)cudaGetLastError();
  EXPECT_GIVES(cudaSuccess, Sum(0, 1));
  standin_keep_apart(1, 0);
  EXPECT_GIVES(cudaSuccess, cudaDeviceCanAccessPeer(&can, 1, 0));
  EXPECT_EQ(can, 0);
  EXPECT_GIVES(cudaSuccess, cudaSetDevice(1));
  EXPECT_GIVES(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
  (void)cudaGetLastError();
  EXPECT_GIVES(cudaErrorIllegalAddress, Sum(1, 1));
}

TEST_F(StandInDevices, CopiesBetweenThemNeedAccessOrTheirNumbers) {
  EXPECT_GIVES(cudaErrorInvalidValue,
               cudaMemcpyAsync(memory_[1], memory_[0], 64, cudaMemcpyDefault, streams_[1]));
  EXPECT_GIVES(cudaErrorInvalidValue,
               cudaMemcpyPeerAsync(memory_[1], 0, memory_[0], 1, 64, streams_[1]));
  EXPECT_GIVES(cudaSuccess, cudaMemsetAsync(memory_[0], 7, 64, streams_[0]));
  EXPECT_GIVES(cudaSuccess, cudaEventRecord(events_[0], streams_[0]));
  EXPECT_GIVES(cudaSuccess, cudaStreamWaitEvent(streams_[1], events_[0], cudaEventWaitDefault));
  EXPECT_GIVES(cudaSuccess, cudaMemcpyPeerAsync(memory_[1], 1, memory_[0], 0, 64, streams_[1]));
  EXPECT_GIVES(cudaSuccess, cudaStreamSynchronize(streams_[1]));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(memory_[1]), 64), std::string(64, '\7'));
  EXPECT_GIVES(cudaSuccess, cudaSetDevice(1));
  EXPECT_GIVES(cudaSuccess, cudaDeviceEnablePeerAccess(0, 0));
  EXPECT_GIVES(cudaSuccess,
               cudaMemcpyAsync(memory_[1], memory_[0], 64, cudaMemcpyDefault, streams_[1]));
}

}  // namespace
}  // namespace stringline
