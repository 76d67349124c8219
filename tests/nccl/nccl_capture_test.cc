// Captured and replayed calls between processes, and calls that cannot be captured.
#include <unistd.h>

#include "gtest/gtest.h"
#include "tests/cuda/standin/nccl_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/nccl_processes.h"

namespace stringline {
namespace {

using Said = std::vector<std::string>;

// The refusal of a capture of the enqueued work, which then runs as usual.
std::string WhyNotCaptured(GroupMembers* members) {
  const auto captured = members->device().Capture();
  const absl::Status run = members->Run();
  EXPECT_TRUE(run.ok()) << run;
  return std::string(captured.status().message());
}

TEST(NcclCapture, IsAnOption) {
  const Said said = RunNccl({}, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, {}), 2);
    Call call = CallOf(CallKind::kAllReduce, 64, 7);
    call.from = call.to = members.Memory<char>(64);
    members.Enqueue(world->process(), call);
    return WhyNotCaptured(&members);
  });
  EXPECT_EQ(said, Said(2,
                       "the step cannot be captured: an all-reduce of thing 7 (64 bytes) among "
                       "ranks 0, 1: calls between processes are not captured without 'nccl: "
                       "{capture: true}'"));
}

// Member 0 replays its calls; the others issue theirs.
TEST(NcclCapture, CapturedCallsMeetThoseOfOthers) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const NcclSums sums : {NcclSums::kOrdered, NcclSums::kNccl}) {
      NcclRun run;
      run.processes = 3;
      run.seed = seed;
      run.settings = {.sums = sums, .capture = true};
      const Said said = RunNccl(run, [&](World* world) -> std::string {
        GroupMembers members(*NewMachine(world, run.settings), 3);
        const int own = world->process();
        constexpr int64_t kFloats = 100;
        const std::vector<float> ones(kFloats, 1);
        auto* const sum = members.Memory<float>(kFloats);
        auto* const pieces = members.Memory<float>(3 * kFloats);
        EXPECT_TRUE(members.device().CopyNow(sum, ones.data(), kFloats * 4).ok());
        int64_t ended_ns = 0;
        int captured = -1;
        for (int step = 0; step < 5; ++step) {
          Call reduce = CallOf(CallKind::kAllReduce, kFloats * 4, 1);
          reduce.from = reduce.to = sum;
          Call gather = CallOf(CallKind::kAllGather, kFloats * 4, 2);
          gather.from = sum;
          gather.to = pieces;
          gather.ended_ns = &ended_ns;
          if (captured < 0) {
            members.Enqueue(own, reduce);
            members.Enqueue(own, gather);
          }
          if (step == 2 && own == 0) {
            const auto made = members.device().Capture();
            if (!made.ok()) return made.status().ToString();
            captured = *made;
          }
          const int64_t before_ns = members.device().NowNs();
          if (captured >= 0) members.device().Replay(captured);
          const absl::Status status = members.Run();
          if (!status.ok()) return status.ToString();
          EXPECT_GT(ended_ns, before_ns);
        }
        std::vector<float> got(3 * kFloats);
        EXPECT_TRUE(members.device().CopyNow(got.data(), pieces, 3 * kFloats * 4).ok());
        EXPECT_EQ(got, std::vector<float>(3 * kFloats, 243));
        return "good";
      });
      EXPECT_EQ(said, Said(3, "good")) << "seed " << seed;
      EXPECT_STREQ(standin_nccl_fault(), "");
    }
  }
}

TEST(NcclCapture, RowsForWhichTheHostWaitsAreNotCaptured) {
  NcclRun ranks;
  ranks.settings = {.rows = NcclRows::kCounted, .capture = true};
  const Said said = RunNccl(ranks, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, ranks.settings), 2);
    const int own = world->process();
    const auto* const counts = members.Put(own, std::vector<int32_t>{1, 1});
    EXPECT_TRUE(members.Run().ok());
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.rows = members.Keep({counts, counts, 1, 2});
    call.from = members.Memory<float>(2);
    call.to = members.Memory<float>(2);
    members.Enqueue(own, call);
    return WhyNotCaptured(&members);
  });
  EXPECT_EQ(said, Said(2,
                       "the step cannot be captured: a counted all-to-all of thing 1 (4 bytes a "
                       "row) among ranks 0, 1: the host waits for the counts; 'nccl: {rows: "
                       "padded}' would not"));
}

// A hang in a replay is named as in an issued step; the graph is destroyed before the communicators
// are aborted.
TEST(NcclCapture, APeerThatNeverCallsIsADeadline) {
  NcclRun run;
  run.settings = {.wait_ms = 500, .capture = true};
  const Said said = RunNccl(run, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, run.settings), 2);
    const int own = world->process();
    Call call = CallOf(CallKind::kAllReduce, 64, 7);
    call.from = call.to = members.Memory<float>(16);
    members.Enqueue(own, call);
    const auto captured = members.device().Capture();
    if (!captured.ok()) return captured.status().ToString();
    members.device().Replay(*captured);
    EXPECT_TRUE(members.Run().ok());
    if (own == 0) {
      members.device().Replay(*captured);
      const absl::Status status = members.Run();
      EXPECT_GT(standin_nccl_aborted(), 0);
      return StatusText(status);
    }
    for (int i = 0; i < 2000 && world->state().ok(); ++i) usleep(5000);
    return StatusText(world->state());
  });
  const std::string text =
      "rank 0 waited 0.5 s for its GPU; rank 0 was in an all-reduce of thing 7 (64 bytes) among "
      "ranks 0, 1";
  EXPECT_EQ(said, Said(2, "DEADLINE_EXCEEDED: " + text));
  EXPECT_STREQ(standin_nccl_fault(), "");
}

}  // namespace
}  // namespace stringline
