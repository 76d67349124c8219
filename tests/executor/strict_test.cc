// Orders on the strict transport: plans that end, plans that do not, and their messages.
#include "executor/rehearsal/strict.h"

#include "gtest/gtest.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

TEST(RunStrict, ASoundStepEnds) {
  EXPECT_TRUE(RunStrict(LoweredFrom("plan one_f_one_b P=2 M=2\n"
                                    "stages 0 1\n"
                                    "rank 0: 0F0 0F1 0B0 0B1\n"
                                    "rank 1: 1F0 1B0 1F1 1B1\n"))
                  .ok());
}

TEST(RunStrict, GroupsAndNeighbourStagesOfOneRankEnd) {
  const absl::Status status =
      RunStrict(LoweredFrom("plan v P=2 M=2\n"
                            "stages 0 1 1 0\n"
                            "rank 0: 0F0 0F1 3F0 3F1&3B0 3I1 0B0 3W1 0I1 0W1\n"
                            "rank 1: 1F0 2F0 1F1 2F1 2B0 1B0&2B1 1B1\n"));
  EXPECT_TRUE(status.ok()) << status;
}

// Rank 0 needs microbatch 0 back first, rank 1 takes both before.
constexpr const char* kWaitInACycle =
    "plan v P=2 M=2\n"
    "stages 0 1 1 0\n"
    "rank 0: 0F0 3F0 3B0 0B0 0F1 3F1 3B1 0B1\n"
    "rank 1: 1F0 1F1 2F0 2F1 2B0 1B0 2B1 1B1\n";

TEST(RunStrict, RanksThatWaitForEachOtherAreADeadlock) {
  const absl::Status status = RunStrict(LoweredFrom(kWaitInACycle));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  const std::string text(status.message());
  for (const char* part : {
           "rank 0's computation waits for 3RECV_F0",
           "rank 1's computation waits for 1RECV_F1",
           "rank 0's receive stream from rank 1 waits for somebody to send the activation of stage "
           "2, microbatch 0 (0 bytes)",
           "rank 1's receive stream from rank 0 waits for somebody to send the gradient of stage "
           "3, microbatch 0 (0 bytes)",
           "rank 1's send stream to rank 0 waits for 2F0",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
  }
}

TEST(RunStrict, ADeadlockNamesTheLinesWhereItWasWritten) {
  Plan plan = LoweredFrom(kWaitInACycle);
  plan.source = std::make_shared<const Source>("v.plan", kWaitInACycle);
  const absl::Status status = RunStrict(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  const std::string said(status.message());
  for (const char* part : {
           "rank 0's computation waits for 3RECV_F0 (v.plan:3)",
           "rank 1's computation waits for 1RECV_F1 (v.plan:4)",
           "rank 1's receive stream from rank 0 waits for somebody to send the gradient of stage "
           "3, microbatch 0 (0 bytes) for 2RECV_B0 (v.plan:4)",
       }) {
    EXPECT_NE(said.find(part), std::string::npos) << part << "\nin: " << said;
  }
}

TEST(RunStrict, MessagesInAnotherOrderAreAMismatch) {
  const absl::Status status =
      RunStrict(PlanFrom("plan swapped P=2 M=2 lowered\n"
                         "stages 0 1\n"
                         "rank 0: 0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
                         "rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message(),
            "a send of the activation of stage 0, microbatch 0 (0 bytes) met a receive of the "
            "activation of stage 0, microbatch 1 (0 bytes)");
}

TEST(RunStrict, AnActionBeforeItsReceiveIsAnError) {
  const absl::Status status =
      RunStrict(PlanFrom("plan late P=2 M=1 lowered\n"
                         "stages 0 1\n"
                         "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0\n"
                         "rank 1: 1F0 1RECV_F0 1B0 1SEND_B0\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(status.message(),
            "rank 1 would run 1F0 without the activation of stage 0, microbatch 0");
}

TEST(RunStrict, AForgottenWeightGradientIsAnError) {
  const absl::Status status =
      RunStrict(LoweredFrom("plan short P=1 M=1\n"
                            "stages 0\n"
                            "rank 0: 0F0 0I0\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

}  // namespace
}  // namespace stringline
