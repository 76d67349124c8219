// A GPU whose work never ends: the error's text, and no further wait for the GPU.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/device.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "stages/models/model.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

constexpr int64_t kTimeoutNs = 30'000'000;

LazyName NameIs(const char* name) {
  return {[](const void* self, int64_t) { return std::string(static_cast<const char*>(self)); },
          name, 0};
}

// One stream does two ops, after another stream's op, which has ended; a third waits for the
// second.
class Deadline : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    standin_reset(5);
    auto made = CudaDevice::Make();
    ASSERT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    left_ = device_->NewStream(NameIs("left"), 16);
    right_ = device_->NewStream(NameIs("right"), 16);
    over_ = device_->NewStream(NameIs("over"), 16);
    begin_ = device_->NewEvent({});
    first_ = device_->NewEvent({});
    end_ = device_->NewEvent(NameIs("the end of left"));
  }
  // Times are recorded if the parameter is true.
  void Enqueue() {
    const auto times = [this](int i) { return GetParam() ? &times_[i] : nullptr; };
    device_->Launch(over_, work_, times(0));
    device_->Record(over_, begin_);
    device_->Wait(left_, begin_);
    device_->Mark(left_, NameIs("the first"));
    device_->Launch(left_, work_, times(1));
    device_->Record(left_, first_);
    device_->Mark(left_, NameIs("the second"));
    device_->Launch(left_, work_, times(2));
    device_->Record(left_, end_);
    device_->Wait(right_, end_);
    device_->Mark(right_, NameIs("the third"));
    device_->Launch(right_, work_, times(3));
  }

  // Only a hanging op has a deadline: other work is never late, however busy the machine is.
  void Hang(int64_t op) {
    standin_hang_op(op);
    device_->set_timeout_ns(kTimeoutNs);
  }

  std::unique_ptr<CudaDevice> device_;
  HostWork host_;
  Work work_ = host_.Of([] {});
  WorkTimes times_[4];
  StreamId left_, right_, over_;
  EventId begin_, first_, end_;
};

TEST_P(Deadline, SaysHowFarTheStreamsCame) {
  Enqueue();
  ASSERT_TRUE(device_->Synchronize().ok());
  Enqueue();
  Hang(3);
  const absl::Status status = device_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "the GPU has not ended its work within 30 ms: left came as far as the second; right "
            "waits for the end of left");
  EXPECT_TRUE(device_->abandoned());
  // No later call waits for the GPU: the stand-in would end the process.
  EXPECT_EQ(device_->Synchronize(), status);
  device_->Replay(0);
  EXPECT_EQ(device_->Capture().status(), status);
  EXPECT_EQ(device_->Allocate(8).status(), status);
  device_ = nullptr;
  EXPECT_GT(standin_alive(), 0);  // leaked, not freed
}

TEST_P(Deadline, OfACapturedStepToo) {
  Enqueue();
  const auto captured = device_->Capture();
  ASSERT_TRUE(captured.ok()) << captured.status();
  device_->Replay(*captured);
  ASSERT_TRUE(device_->Synchronize().ok());
  device_->Replay(*captured);
  Hang(3);
  EXPECT_EQ(device_->Synchronize().message(),
            GetParam()
                ? "the GPU has not ended its work within 30 ms: left came as far as the second; "
                  "right waits for the end of left"
                : "the GPU has not ended its work within 30 ms: a captured step, without times");
}

// A watch ends the wait, long before the deadline.
TEST_P(Deadline, IsNotWaitedForWhereAWatchSaysNo) {
  constexpr int kAsked = 5;
  int asked = 0;
  device_->AddWatch(
      [](const void* self) -> absl::Status {
        int& count = *static_cast<int*>(const_cast<void*>(self));
        if (++count < kAsked) return absl::OkStatus();
        return absl::UnavailableError("rank 1 is gone");
      },
      &asked);
  Enqueue();
  Hang(2);
  device_->set_timeout_ns(20 * kTimeoutNs);
  EXPECT_EQ(device_->Synchronize(), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(asked, kAsked);
  EXPECT_TRUE(device_->abandoned());
  device_ = nullptr;
}

TEST_P(Deadline, NobodyIsAskedWhenTheWorkHasEnded) {
  device_->AddWatch([](const void*) -> absl::Status { return absl::UnavailableError("gone"); },
                    nullptr);
  Enqueue();
  device_->Submit();
  while (standin_ops_pending() > 0) {
    for (const StreamId stream : {left_, right_, over_}) {
      (void)cudaStreamQuery(device_->native(stream));
    }
  }
  const absl::Status status = device_->Synchronize();
  EXPECT_TRUE(status.ok()) << status;
  device_ = nullptr;
  EXPECT_EQ(standin_alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(Times, Deadline, testing::Bool(),
                         [](const auto& info) { return info.param ? "recorded" : "unrecorded"; });

// Any op of a training step may hang first, issued or replayed: the step ends with an error naming
// a rank and an action.
TEST(DeadlineOfTraining, NamesRankAndAction) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  const auto programs = BuildModelStages(TinyModel(TinyFamily::kGpt, 2), {1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  for (const int steps_before : {0, 1, 4}) {
    for (const int64_t op : {1, 7, 40, 200}) {
      SCOPED_TRACE(testing::Message() << op << " after " << steps_before);
      standin_reset(static_cast<unsigned>(op));
      standin_cublas_reset();
      auto backend = CudaBackend::Make();
      ASSERT_TRUE(backend.ok()) << backend.status();
      auto trainer = Trainer::Make(plan, *programs, {}, *std::move(backend));
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      for (int step = 0; step < steps_before; ++step) {
        const absl::Status status = (*trainer)->ComputeGradients();
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE((*trainer)->Update(1e-3).ok());
      }
      standin_hang_op(op);
      static_cast<CudaDevice*>((*trainer)->device())->set_timeout_ns(kTimeoutNs);
      const absl::Status status = (*trainer)->ComputeGradients();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "rank ")) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), " came as far as ")) << status;
      const std::string far(status.message().substr(status.message().find(" came as far as ")));
      EXPECT_NE(far.find_first_of("FB"), std::string::npos) << far;
      EXPECT_EQ((*trainer)->Update(1e-3).status(), status);
    }
  }
}

}  // namespace
}  // namespace stringline
