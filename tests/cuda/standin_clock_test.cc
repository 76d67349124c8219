// The stand-in's vector clocks: a missing event is detected whatever the order of the run, and a
// present event prevents any report.
#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "executor/cuda/copies/group.h"
#include "executor/cuda/copies/kernels.h"
#include "executor/cuda/declared_use.h"
#include "executor/cuda/device.h"
#include "executor/cuda/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

std::string Race() {
  const char* const race = standin_race();
  return race == nullptr ? "" : race;
}

// Two streams of a device; the second runs an op after an event of the first, or without.
class TwoStreams {
 public:
  explicit TwoStreams(unsigned seed) {
    standin_reset(seed);
    device_ = *CudaDevice::Make();
    for (StreamId& stream : streams_) stream = device_->NewStream({}, 16);
    event_ = device_->NewEvent({});
    for (float*& memory : memory_) memory = static_cast<float*>(*device_->Allocate(kBytes));
  }
  using Do = std::function<void(CudaDevice&, StreamId, float* const*)>;
  // The status and the race found.
  std::pair<absl::Status, std::string> Run(const Do& first, const Do& second, bool ordered,
                                           bool captured) {
    first(*device_, streams_[0], memory_);
    if (ordered) {
      device_->Record(streams_[0], event_);
      device_->Wait(streams_[1], event_);
    }
    second(*device_, streams_[1], memory_);
    if (captured) device_->Replay(*device_->Capture());
    const absl::Status status = device_->Synchronize();
    return {status, Race()};
  }
  CudaDevice& device() { return *device_; }
  static constexpr int64_t kBytes = 4096;

 private:
  std::unique_ptr<CudaDevice> device_;
  StreamId streams_[2];
  EventId event_;
  float* memory_[3];
};

TwoStreams::Do CopyTo(int to, int from) {
  return [to, from](CudaDevice& device, StreamId stream, float* const* memory) {
    device.Copy(stream, memory[to], memory[from], TwoStreams::kBytes);
  };
}

void AddFirstTwo(const void* self, int64_t, NativeStream native) {
  auto* const* const memory = static_cast<float* const*>(self);
  const auto stream = static_cast<cudaStream_t>(native);
  const DeclaredUse declared = {{memory[0], 64, 0}, {memory[1], 64, 0}, {memory[2], 64, 1}};
  (void)cuda::Launch(stream, cuda::Add<float>{memory[0], memory[1], memory[2], 16});
}
void SumFirstTwo(const void* self, int64_t, NativeStream native) {
  auto* const* const memory = static_cast<float* const*>(self);
  SumShare share = {};
  share.from[0] = memory[0];
  share.from[1] = memory[1];
  share.to[0] = memory[2];
  share.summands = 2;
  share.targets = 1;
  share.count = 16;
  LaunchSum(share, static_cast<cudaStream_t>(native));
}
TwoStreams::Do Kernel(void (*run)(const void*, int64_t, NativeStream)) {
  return [run](CudaDevice& device, StreamId stream, float* const* memory) {
    device.Launch(stream, {run, memory, 0});
  };
}

TEST(StandInClock, AMissingEventIsSeenInEveryOrder) {
  const struct {
    const char* name;
    TwoStreams::Do first, second;
    const char *one, *other;  // parts of the race's text, whichever runs first
  } cases[] = {
      {"reads what is written", CopyTo(1, 0), CopyTo(2, 1), "a copy on line ", "a copy on line "},
      {"writes what is read", CopyTo(1, 0), CopyTo(0, 2), "a copy on line ", "a copy on line "},
      {"writes what is written", CopyTo(2, 0), CopyTo(2, 1), " writes what ", " writes"},
      {"a kernel that declares", CopyTo(1, 0), Kernel(AddFirstTwo), "a kernel on line ", "a copy"},
      {"a kernel whose twin says it", Kernel(SumFirstTwo), CopyTo(1, 2), "a kernel on line ",
       "a copy"},
  };
  for (const auto& test : cases) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      for (const bool captured : {false, true}) {
        SCOPED_TRACE(testing::Message() << test.name << " seed " << seed << " " << captured);
        const auto [status, race] =
            TwoStreams(seed).Run(test.first, test.second, /*ordered=*/false, captured);
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
        EXPECT_NE(race.find(test.one), std::string::npos) << race;
        EXPECT_NE(race.find(test.other), std::string::npos) << race;
        EXPECT_NE(race.find(", and nothing orders the two"), std::string::npos) << race;
        const auto [fine, none] =
            TwoStreams(seed).Run(test.first, test.second, /*ordered=*/true, captured);
        EXPECT_TRUE(fine.ok()) << fine;
        EXPECT_EQ(none, "");
      }
    }
  }
}

TEST(StandInClock, ReadersNeedNoOrder) {
  for (const bool captured : {false, true}) {
    const auto [status, race] =
        TwoStreams(3).Run(CopyTo(1, 0), CopyTo(2, 0), /*ordered=*/false, captured);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(race, "");
  }
}

// The host's waits order: awaited work precedes all work enqueued afterwards.
TEST(StandInClock, TheHostOrdersToo) {
  TwoStreams streams(1);
  const TwoStreams::Do nothing = [](CudaDevice&, StreamId, float* const*) {};
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(streams.Run(CopyTo(1, 0), nothing, false, step == 1).first.ok());
    EXPECT_TRUE(streams.Run(nothing, CopyTo(2, 1), false, step == 2).first.ok());
  }
  EXPECT_EQ(Race(), "");
}

// Freed memory has no users.
TEST(StandInClock, OnlyBytesCountThatBothUse) {
  standin_reset(1);
  cudaStream_t streams[2];
  char* memory = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 300), cudaSuccess);
  for (cudaStream_t& stream : streams) {
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 100, streams[0]), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory + 100, 1, 100, streams[1]), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory + 200, 2, 100, streams[0]), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Race(), "");
  ASSERT_EQ(cudaMemsetAsync(memory + 50, 3, 51, streams[0]), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory + 100, 4, 1, streams[1]), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Race().find("a fill on line "), 0u) << Race();
  EXPECT_EQ(cudaStreamQuery(streams[0]), cudaErrorLaunchFailure);  // the error persists
  standin_reset(1);
  EXPECT_EQ(Race(), "");
}

}  // namespace
}  // namespace stringline
