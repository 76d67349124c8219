// Two ends of a message must mean the same one, and be of one length.
#include "executor/channel.h"

#include "executor/cpu/device.h"
#include "executor/interpreter.h"
#include "executor/threads/transport.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

Message Of(bool gradient, int stage, int microbatch, int64_t bytes) {
  Message message;
  message.gradient = gradient;
  message.producer = StageId(stage);
  message.microbatch = MicrobatchId(microbatch);
  message.bytes = bytes;
  return message;
}

TEST(Channel, EndsThatDifferInOneThingDoNotMatch) {
  const Message send = Of(false, 1, 2, 64);
  EXPECT_TRUE(MatchMessages(send, Of(false, 1, 2, 64)).ok());
  const std::pair<Message, const char*> others[] = {
      {Of(true, 1, 2, 64), "the gradient of stage 1, microbatch 2 (64 bytes)"},
      {Of(false, 3, 2, 64), "the activation of stage 3, microbatch 2 (64 bytes)"},
      {Of(false, 1, 0, 64), "the activation of stage 1, microbatch 0 (64 bytes)"},
      {Of(false, 1, 2, 60), "the activation of stage 1, microbatch 2 (60 bytes)"},
      {Of(false, 1, 2, 68), "the activation of stage 1, microbatch 2 (68 bytes)"},
  };
  for (const auto& [recv, described] : others) {
    const absl::Status status = MatchMessages(send, recv);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << described;
    EXPECT_EQ(status.message(),
              "a send of the activation of stage 1, microbatch 2 (64 bytes) met a receive of " +
                  std::string(described));
  }
}

// Every send reads 64 bytes; every receive has room for `room`.
class Ends final : public StageWork {
 public:
  explicit Ends(int64_t room) : room_(room) {}
  Work Compute(const Action& /*action*/, int /*lane*/) override {
    return {[](const void*, int64_t) {}, nullptr, 0};
  }
  Bytes Payload(const Action& action) const override {
    return {nullptr, IsSend(action.kind) ? 64 : room_};
  }

 private:
  const int64_t room_;
};

absl::Status StepWithRoom(int64_t room) {
  const Plan plan = LoweredFrom(
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n");
  Ends ends(room);
  CpuDevice device;
  ThreadTransport transport(&device, static_cast<int>(ChannelsOf(plan).all.size()));
  const auto step = Interpreter::Make(plan, &ends, &device, &transport, nullptr);
  SL_CHECK(step.ok()) << step.status();
  (*step)->EnqueueStep();
  return device.Synchronize();
}

TEST(Channel, AStepEndsWithAnErrorWhereLengthsDiffer) {
  EXPECT_TRUE(StepWithRoom(64).ok());
  for (const int64_t room : {0, 63, 65, 128}) {
    const absl::Status status = StepWithRoom(room);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << room;
    EXPECT_NE(status.message().find("(64 bytes) met a receive of the activation of stage 0"),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace stringline
