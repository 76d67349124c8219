// Streams, events, meetings, deadlocks, times and errors of the CUDA device, beside the stand-in.
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cuda/device.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

LazyName Named(const char* name) {
  return {[](const void* self, int64_t) { return std::string(static_cast<const char*>(self)); },
          name, 0};
}

// One random order of the stand-in.
class CudaDeviceTest : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    standin_reset(GetParam());
    auto made = CudaDevice::Make();
    ASSERT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
  }
  void TearDown() override {
    device_ = nullptr;
    EXPECT_EQ(standin_alive(), 0);
  }
  Work Entry(int entry) {
    return host_.Of([this, entry] { order_.push_back(entry); });
  }

  std::unique_ptr<CudaDevice> device_;
  HostWork host_;
  std::vector<int> order_;
};

TEST_P(CudaDeviceTest, WorkOfAStreamRunsInOrder) {
  const StreamId stream = device_->NewStream({}, 100);
  for (int step = 0; step < 3; ++step) {
    order_.clear();
    for (int i = 0; i < 100; ++i) device_->Launch(stream, Entry(i));
    EXPECT_EQ(standin_ops_pending(), 0);
    device_->Submit();
    EXPECT_EQ(standin_ops_pending(), 100);
    ASSERT_TRUE(device_->Synchronize().ok());
    EXPECT_EQ(standin_ops_pending(), 0);
    ASSERT_EQ(order_.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(order_[i], i);
  }
}

// Also if the waiting stream is considered first.
TEST_P(CudaDeviceTest, AnEventHoldsBackWhatWaitsForIt) {
  const StreamId late = device_->NewStream({}, 8);
  const StreamId early = device_->NewStream({}, 8);
  const EventId event = device_->NewEvent({});
  for (int step = 0; step < 20; ++step) {
    order_.clear();
    device_->Launch(early, Entry(1));
    device_->Record(early, event);
    device_->Wait(late, event);
    device_->Launch(late, Entry(2));
    ASSERT_TRUE(device_->Synchronize().ok());
    ASSERT_EQ(order_, (std::vector<int>{1, 2}));
  }
}

TEST_P(CudaDeviceTest, AWaitMeansTheLatestRecordEnqueuedBeforeIt) {
  const StreamId b = device_->NewStream({}, 8);
  const StreamId a = device_->NewStream({}, 8);
  const EventId event = device_->NewEvent({});
  device_->Wait(b, event);  // never recorded: delays nothing
  device_->Launch(b, Entry(0));
  ASSERT_TRUE(device_->Synchronize().ok());
  device_->Launch(a, Entry(1));
  device_->Record(a, event);
  device_->Launch(a, Entry(2));
  device_->Record(a, event);
  device_->Wait(b, event);
  device_->Launch(b, Entry(3));
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(order_, (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(CudaDeviceTest, RandomOrdersAreKept) {
  std::mt19937 random(GetParam());
  constexpr int kStreams = 20;
  constexpr int kSteps = 200;
  std::vector<bool> done(kSteps);
  int violations = 0;
  std::vector<StreamId> streams;
  std::vector<EventId> events;
  for (int i = 0; i < kStreams; ++i) streams.push_back(device_->NewStream({}, 4 * kSteps));
  for (int i = 0; i < kSteps; ++i) events.push_back(device_->NewEvent({}));
  for (int i = 0; i < kSteps; ++i) {
    std::vector<int> after;
    const StreamId stream = streams[random() % kStreams];
    for (int k = 0; i > 0 && k < 2; ++k) {
      after.push_back(static_cast<int>(random() % i));
      device_->Wait(stream, events[after.back()]);
    }
    device_->Launch(stream, host_.Of([&done, &violations, after, i] {
      for (const int before : after) violations += done[before] ? 0 : 1;
      done[i] = true;
    }));
    device_->Record(stream, events[i]);
  }
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(violations, 0);
  for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(done[i]) << i;
}

std::string DescribeSide(const void* /*link*/, int side, const void* /*end*/) {
  return absl::StrCat("a partner of side ", side);
}

// Work of the streams after a meeting comes after all work before it.
TEST_P(CudaDeviceTest, ManyStreamsMeet) {
  for (const int sides : {1, 3, 8}) {
    struct Meeting {
      CudaDevice* device;
      int sides;
      int there = 0;
      int early = 0;
    } met{device_.get(), sides};
    IssueMeeting meeting(sides, &met);
    meeting.describe = DescribeSide;
    meeting.exchange = [](void* link, IssueMeeting::Ends ends, IssueMeeting::Streams streams) {
      const auto& own = *static_cast<Meeting*>(link);
      for (int m = 0; m < own.sides; ++m) {
        if (*static_cast<const int*>(ends[m]) != m) return absl::InternalError("a wrong end");
      }
      for (const StreamId before : streams) {
        for (const StreamId after : streams) {
          const absl::Status status = own.device->Order(before, after);
          if (!status.ok()) return status;
        }
      }
      return absl::OkStatus();
    };
    std::vector<int> numbers(sides);
    for (int i = 0; i < sides; ++i) {
      numbers[i] = i;
      const StreamId stream = device_->NewStream({}, 64);
      for (int round = 0; round < 5; ++round) {
        device_->Launch(stream, host_.Of([&met] { ++met.there; }));
        device_->Meet(stream, &meeting, i, &numbers[i]);
        device_->Launch(stream, host_.Of([&met, round] {
          met.early += met.there < (round + 1) * met.sides ? 1 : 0;
        }));
      }
    }
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(met.early, 0) << sides;
    EXPECT_EQ(met.there, 5 * sides);
  }
}

TEST_P(CudaDeviceTest, CopiesStandInTheOrderOfTheStream) {
  const StreamId stream = device_->NewStream({}, 8);
  auto* const host = static_cast<int*>(*device_->AllocateHost(2 * sizeof(int)));
  auto* const there = static_cast<int*>(*device_->Allocate(sizeof(int)));
  EXPECT_EQ(host[0], 0);
  device_->Copy(stream, there, &host[0], sizeof(int));
  device_->Launch(stream, host_.Of([there] { *there *= 2; }));
  device_->Copy(stream, &host[1], there, sizeof(int));
  device_->Submit();
  host[0] = 21;  // read when the stream comes to the copy
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(host[1], 42);
  EXPECT_EQ(standin_pageable_copies(), 0);
}

TEST_P(CudaDeviceTest, TimesAreThoseOfTheStreamsInEveryStep) {
  constexpr int64_t kMs = 1'000'000;
  standin_set_op_ns(kMs);
  const StreamId a = device_->NewStream({}, 8);
  const StreamId b = device_->NewStream({}, 8);
  const EventId event = device_->NewEvent({});
  int64_t alive = 0;
  for (int step = 0; step < 3; ++step) {
    WorkTimes first, second, other;
    const int64_t before_ns = device_->NowNs();
    device_->Launch(a, Entry(0), &first);
    device_->Launch(a, Entry(1), &second);
    device_->Record(a, event);
    device_->Wait(b, event);
    device_->Launch(b, Entry(2), &other);
    ASSERT_TRUE(device_->Synchronize().ok());
    // The base is read from the host's clock; the rest is the stand-in's, to some microseconds.
    EXPECT_GE(first.start_ns, before_ns);
    EXPECT_NEAR(first.end_ns - first.start_ns, kMs, kMs / 10);
    EXPECT_NEAR(second.start_ns - first.end_ns, 0, kMs / 10);
    EXPECT_NEAR(second.end_ns - second.start_ns, kMs, kMs / 10);
    EXPECT_NEAR(other.start_ns - second.end_ns, 0, kMs / 10);
    EXPECT_NEAR(other.end_ns - other.start_ns, kMs, kMs / 10);
    // The first step's events are reused.
    if (step > 0) {
      EXPECT_EQ(standin_alive(), alive);
    }
    alive = standin_alive();
  }
}

// With the GPU's clock standing still, all times of a step are those of its base.
TEST_P(CudaDeviceTest, EveryStepHasABaseOfItsOwn) {
  standin_set_op_ns(0);
  standin_set_call_ns(0);
  const StreamId stream = device_->NewStream({}, 8);
  for (int step = 0; step < 3; ++step) {
    WorkTimes times;
    const int64_t before_ns = device_->NowNs();
    device_->Launch(stream, Entry(0), &times);
    ASSERT_TRUE(device_->Synchronize().ok());
    EXPECT_GE(times.start_ns, before_ns);
    EXPECT_LE(times.end_ns, device_->NowNs());
  }
}

TEST_P(CudaDeviceTest, ADeadlockIsSeenAndNamed) {
  const StreamId a = device_->NewStream(Named("left"), 8);
  const StreamId b = device_->NewStream(Named("right"), 8);
  const StreamId c = device_->NewStream(Named("third"), 8);
  const EventId event = device_->NewEvent(Named("the end of left"));
  IssueMeeting first(2, nullptr), second(2, nullptr);
  for (IssueMeeting* const meeting : {&first, &second}) {
    meeting->exchange = [](void*, IssueMeeting::Ends, IssueMeeting::Streams) {
      return absl::OkStatus();
    };
    meeting->describe = DescribeSide;
  }
  device_->Launch(a, Entry(1));
  device_->Meet(a, &first, 0, nullptr);
  device_->Meet(a, &second, 0, nullptr);
  device_->Record(a, event);
  device_->Meet(b, &second, 1, nullptr);
  device_->Meet(b, &first, 1, nullptr);
  device_->Wait(c, event);
  const absl::Status status = device_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "deadlock: nothing can run any more, and left waits for a partner of side 0; right "
            "waits for a partner of side 1; third waits for the end of left");
  EXPECT_EQ(device_->Synchronize(), status);  // the device stays in its error
  EXPECT_EQ(order_, (std::vector<int>{1}));   // and no further op runs
  EXPECT_EQ(standin_ops_pending(), 0);
}

TEST_P(CudaDeviceTest, AnErrorOfAMeetingIsTheDevices) {
  const StreamId a = device_->NewStream({}, 8);
  IssueMeeting meeting(1, nullptr);
  meeting.describe = DescribeSide;
  meeting.exchange = [](void*, IssueMeeting::Ends, IssueMeeting::Streams) -> absl::Status {
    return absl::InvalidArgumentError("no match");
  };
  device_->Meet(a, &meeting, 0, nullptr);
  device_->Launch(a, Entry(1));
  EXPECT_EQ(device_->Synchronize().message(), "no match");
  EXPECT_EQ(device_->Synchronize().message(), "no match");
  EXPECT_TRUE(order_.empty());
}

TEST_P(CudaDeviceTest, MemoryIsAlignedAndZeroForEveryStream) {
  const StreamId stream = device_->NewStream({}, 8);
  auto* const back = static_cast<char*>(*device_->AllocateHost(1000));
  for (const int64_t bytes : {1, 64, 1000}) {
    const auto memory = device_->Allocate(bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 256, 0u);
    std::memset(back, 1, 1000);
    device_->Copy(stream, back, *memory, bytes);
    ASSERT_TRUE(device_->Synchronize().ok());
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(back[i], 0);
  }
}

TEST_P(CudaDeviceTest, TooMuchMemoryIsAnErrorAndTheDeviceGoesOn) {
  standin_set_memory(5000);
  ASSERT_TRUE(device_->Allocate(1000).ok());
  const auto memory = device_->Allocate(4001);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.status().message(),
            "cannot allocate 4001 bytes of GPU memory: 4000 of 5000 bytes are free");
  EXPECT_TRUE(device_->Allocate(4000).ok());
  const StreamId stream = device_->NewStream({}, 8);
  device_->Launch(stream, Entry(1));
  EXPECT_TRUE(device_->Synchronize().ok());
}

TEST_P(CudaDeviceTest, MessagesGoBeforeComputation) {
  const StreamId compute = device_->NewStream({}, 8);
  const StreamId messages = device_->NewUrgentStream({}, 8);
  EXPECT_LT(standin_priority(device_->native(messages)),
            standin_priority(device_->native(compute)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaDeviceTest, testing::Range(0U, 20U));

TEST(CudaDevice, WithoutAGpuIsUnavailable) {
  standin_reset(1);
  EXPECT_EQ(CudaDevice::Make(1).status().message(), "there is no GPU 1: this machine has 1");
  standin_fail_call(1, cudaErrorNoDevice);
  EXPECT_EQ(CudaDevice::Make().status().code(), absl::StatusCode::kUnavailable);
}

// The device detects a launch error, which CUDA reports only later.
TEST(CudaDevice, AFailedLaunchIsAnErrorThatNamesTheStream) {
  standin_reset(1);
  const auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  HostWork host;
  const StreamId stream = (*device)->NewStream(Named("rank 0"), 8);
  (*device)->Launch(stream, host.Of([] {}));
  standin_fail_call(3, cudaErrorInvalidConfiguration);  // after two questions for the GPU
  EXPECT_EQ((*device)->Synchronize().message(),
            "work on rank 0: an error of the stand-in (cudaErrorInvalidConfiguration)");
  // The error is cleared for other callers.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace stringline
