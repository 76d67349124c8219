// A step as one graph: replays have the step's effect, and a step without a capture runs as usual.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cuda/device.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

// Two streams, the second waiting for the first, and a record of their order.
class CudaCapture : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(3);
    auto made = CudaDevice::Make();
    ASSERT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    for (StreamId& stream : streams_) stream = device_->NewStream({}, 16);
    event_ = device_->NewEvent({});
  }
  void TearDown() override {
    device_ = nullptr;
    EXPECT_EQ(standin_alive(), leaked_);
  }
  void Enqueue() {
    device_->Launch(streams_[1], first_, &times_[0]);
    device_->Record(streams_[1], event_);
    device_->Wait(streams_[0], event_);
    device_->Launch(streams_[0], second_, &times_[1]);
  }

  std::unique_ptr<CudaDevice> device_;
  HostWork host_;
  std::vector<int> order_;
  int leaked_ = 0;  // by a failed call
  Work first_ = host_.Of([this] { order_.push_back(1); });
  Work second_ = host_.Of([this] { order_.push_back(2); });
  StreamId streams_[2];
  EventId event_;
  WorkTimes times_[2];
};

TEST_F(CudaCapture, ReplaysDoWhatTheStepDid) {
  constexpr int64_t kMs = 1'000'000;
  standin_set_op_ns(kMs);
  Enqueue();
  const auto captured = device_->Capture();
  ASSERT_TRUE(captured.ok()) << captured.status();
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_TRUE(order_.empty());  // captured, but not run
  std::vector<int> expected;
  for (int i = 0; i < 4; ++i) {
    for (WorkTimes& times : times_) times = {};
    const int64_t before_ns = device_->NowNs();
    // Issued and replayed steps by turns.
    if (i % 2 == 0) {
      device_->Replay(*captured);
    } else {
      Enqueue();
    }
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
    expected.insert(expected.end(), {1, 2});
    EXPECT_EQ(order_, expected);
    EXPECT_GE(times_[0].start_ns, before_ns);
    EXPECT_NEAR(times_[0].end_ns - times_[0].start_ns, kMs, kMs / 10);
    EXPECT_NEAR(times_[1].start_ns - times_[0].end_ns, 0, kMs / 10);
    EXPECT_NEAR(times_[1].end_ns - times_[1].start_ns, kMs, kMs / 10);
  }
}

// Without this flag CUDA gives all nodes of a graph one priority, whatever their streams had.
TEST_F(CudaCapture, NodesOfAGraphKeepThePrioritiesOfTheirStreams) {
  Enqueue();
  const auto captured = device_->Capture();
  ASSERT_TRUE(captured.ok()) << captured.status();
  EXPECT_EQ(standin_graph_flags(), uint64_t{cudaGraphInstantiateFlagUseNodePriority});
}

TEST_F(CudaCapture, WhatCannotBeCapturedRunsAsEver) {
  Enqueue();
  device_->Launch(
      streams_[1],
      {[](const void*, int64_t, NativeStream) { (void)cudaDeviceSynchronize(); }, nullptr, 0});
  const auto captured = device_->Capture();
  EXPECT_EQ(captured.status().message(),
            "the step cannot be captured: work on #0: an error of the stand-in "
            "(cudaErrorStreamCaptureUnsupported)");
  EXPECT_TRUE(order_.empty());
  const absl::Status status = device_->Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
}

// In a capture CUDA refuses to wait for events recorded outside it.
TEST_F(CudaCapture, WhatEarlierStepsRecordedIsNotWaitedFor) {
  Enqueue();
  ASSERT_TRUE(device_->Synchronize().ok());
  device_->Wait(streams_[0], event_);
  device_->Launch(streams_[0], second_);
  const auto captured = device_->Capture();
  ASSERT_TRUE(captured.ok()) << captured.status();
  device_->Replay(*captured);
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(order_, (std::vector<int>{1, 2, 2}));
}

// Streams still waiting for each other when the capture ends meet again afterwards.
TEST_F(CudaCapture, MeetingsBeginAnew) {
  int exchanges = 0;
  IssueMeeting meeting(2, &exchanges);
  meeting.exchange = [](void* link, IssueMeeting::Ends, IssueMeeting::Streams) {
    ++*static_cast<int*>(link);
    return absl::OkStatus();
  };
  meeting.describe = [](const void*, int side, const void*) { return absl::StrCat("side ", side); };
  device_->Meet(streams_[0], &meeting, 0, nullptr);
  const auto captured = device_->Capture();
  EXPECT_EQ(captured.status().code(), absl::StatusCode::kAborted);
  device_->Meet(streams_[1], &meeting, 1, nullptr);
  Enqueue();
  const absl::Status status = device_->Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(exchanges, 1);
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
}

// A failure of any call of the capture leaves the step enqueued: it still runs, once.
TEST_F(CudaCapture, AFailedCallOnlyEndsTheCapture) {
  int failures = 0;
  for (int n = 1;; ++n) {
    order_.clear();
    Enqueue();
    standin_fail_call(n, cudaErrorInvalidValue);
    const auto captured = device_->Capture();
    const char* const failed = standin_failed_call();
    const std::string call = failed == nullptr ? "" : failed;
    standin_fail_call(0, 0);
    if (captured.ok()) {
      EXPECT_TRUE(call.empty() || call == "cudaGraphDestroy") << n << " " << call;
      leaked_ += call.empty() ? 0 : 1;
      device_->Replay(*captured);
    } else {
      ++failures;
      EXPECT_FALSE(call.empty()) << n << " " << captured.status();
      EXPECT_EQ(captured.status().message().find(absl::StrCat(
                    "the step cannot be captured: ", call == "cudaLaunchHostFunc" ? "work" : call)),
                0u)
          << n << " " << captured.status();
    }
    const absl::Status status = device_->Synchronize();
    ASSERT_TRUE(status.ok()) << n << " " << status;
    EXPECT_EQ(order_, (std::vector<int>{1, 2})) << n;
    if (call.empty()) break;
  }
  EXPECT_GT(failures, 15);
}

}  // namespace
}  // namespace stringline
