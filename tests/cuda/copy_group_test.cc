// Groups that copy on a GPU: the contract of groups, in every order of the stand-in, and the errors
// of members in disagreement.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/group_contract.h"

namespace stringline {
namespace {

// All members belong to this process.
GroupMachine NewMachine(int count) {
  auto device = *CudaDevice::Make();
  GroupMachine machine;
  machine.groups = std::make_unique<CopyGroups>(device.get());
  machine.device = std::move(device);
  machine.work_of = HostWork::Kept();
  for (int m = 0; m < count; ++m) machine.local.push_back(m);
  return machine;
}

class CopyGroupTest : public testing::TestWithParam<std::tuple<int, unsigned>> {
 protected:
  void SetUp() override { standin_reset(std::get<1>(GetParam())); }
  void TearDown() override { EXPECT_EQ(standin_alive(), 0); }
  int count() const { return std::get<0>(GetParam()); }
};

TEST_P(CopyGroupTest, KeepsTheContract) {
  for (const NamedContract& contract : GpuGroupContracts()) {
    SCOPED_TRACE(contract.name);
    standin_reset(std::get<1>(GetParam()));
    contract.check([this] { return NewMachine(count()); }, count(), std::get<1>(GetParam()));
    EXPECT_EQ(standin_pageable_copies(), 0);
    EXPECT_EQ(standin_alive(), 0);
  }
}

TEST_P(CopyGroupTest, CallsSayWhenTheyEnded) {
  constexpr int64_t kMs = 1'000'000;
  standin_set_op_ns(kMs);
  GroupMembers members(NewMachine(count()), count());
  HostWork host;
  std::vector<WorkTimes> after(count());
  std::vector<int64_t> ended_ns(count(), 0);
  for (int m = 0; m < count(); ++m) {
    // The last to come determines the time.
    for (int i = 0; i < m; ++i) members.device().Launch(members.stream(m), host.Of([] {}));
    Call call = CallOf(CallKind::kAllReduce, 64, 0);
    call.from = call.to = members.Memory<float>(16);
    call.ended_ns = &ended_ns[m];
    members.Enqueue(m, call);
    members.device().Launch(members.stream(m), host.Of([] {}), &after[m]);
  }
  const int64_t before_ns = members.device().NowNs();
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (int m = 0; m < count(); ++m) {
    EXPECT_GT(ended_ns[m], before_ns);
    EXPECT_NEAR(after[m].start_ns, ended_ns[m], kMs / 10);
    EXPECT_NEAR(ended_ns[m], ended_ns[0], kMs / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(MembersAndSeeds, CopyGroupTest,
                         testing::Combine(testing::Values(1, 2, 3, 5), testing::Range(0U, 12U)));

class CopyErrors : public testing::Test {
 protected:
  void SetUp() override { standin_reset(7); }
};

TEST_F(CopyErrors, MembersThatCallDifferentThingsAreNamed) {
  GroupMembers members(NewMachine(3), 3);
  for (int m = 0; m < 3; ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, m == 2 ? 32 : 64, 7));
  }
  const absl::Status status = members.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "an all-reduce of thing 7 (64 bytes) met an all-reduce of thing 7 (32 bytes)");
}

TEST_F(CopyErrors, MessagesThatDifferAreNamed) {
  GroupMembers members(NewMachine(2), 2);
  members.Enqueue(0, CallOf(CallKind::kSend, 64, 3, 1));
  members.Enqueue(1, CallOf(CallKind::kRecv, 60, 3, 0));
  EXPECT_EQ(members.Run().message(),
            "a send of thing 3 (64 bytes) met a receive of thing 3 (60 bytes)");
}

// Members that send 1 and 2 rows to the receivers in their counts; `to_counts` are the rows that
// each expects.
absl::Status RunRows(GroupMembers* members, const std::vector<int32_t> (&to_counts)[2],
                     int64_t room, const char* (&got)[2]) {
  for (int m = 0; m < 2; ++m) {
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.from = members->Put(m, std::vector<int32_t>(3, 5));
    call.to = members->Put(m, std::vector<char>(64, -1));
    call.rows = members->Keep(
        {members->Put(m, std::vector<int32_t>{1, 2}), members->Put(m, to_counts[m]), 1, room});
    members->Enqueue(m, call);
    got[m] = members->Fetch(m, static_cast<char*>(call.to), 64);
  }
  return members->Run();
}

TEST_F(CopyErrors, RowsThatDoNotFitAreAnErrorAndNothingIsWritten) {
  GroupMembers members(NewMachine(2), 2);
  const char* got[2];
  const absl::Status status = RunRows(&members, {{1, 1}, {2, 2}}, 3, got);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "a counted all-to-all of thing 1 (4 bytes a row): member 1 is sent 4 rows and has "
            "room for 3");
  EXPECT_EQ(members.Run(), status);
  for (const char* const bytes : got) {
    EXPECT_EQ(std::string(bytes, 64), std::string(64, static_cast<char>(-1)));
  }
}

TEST_F(CopyErrors, CountsThatDoNotAgreeAreAnError) {
  GroupMembers members(NewMachine(2), 2);
  const char* got[2];
  const absl::Status status = RunRows(&members, {{1, 2}, {2, 2}}, 9, got);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "a counted all-to-all of thing 1 (4 bytes a row): member 1 sends 1 rows to member 0, "
            "which expects 2");
  EXPECT_EQ(got[0][0], -1);
}

// The next call is correct, the call after it is not; the first fault is reported.
TEST_F(CopyErrors, AFaultIsNotForgottenByTheNextCall) {
  GroupMembers members(NewMachine(1), 1);
  for (const int32_t expected : {2, 1, 3}) {
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 10 + expected);
    call.rows = members.Keep({members.Put(0, std::vector<int32_t>{1}),
                              members.Put(0, std::vector<int32_t>{expected}), 1, 9});
    members.Enqueue(0, call);
  }
  EXPECT_EQ(members.Run().message(),
            "a counted all-to-all of thing 12 (4 bytes a row): member 0 sends 1 rows to member 0, "
            "which expects 2");
}

TEST_F(CopyErrors, MembersThatCallInAnotherOrderAreADeadlockThatIsNamed) {
  GroupMembers members(NewMachine(2), 2);
  members.Enqueue(0, CallOf(CallKind::kAllReduce, 4, 1));
  members.Enqueue(0, CallOf(CallKind::kSend, 4, 2, 1));
  members.Enqueue(1, CallOf(CallKind::kRecv, 4, 2, 0));
  members.Enqueue(1, CallOf(CallKind::kAllReduce, 4, 1));
  EXPECT_EQ(members.Run().message(),
            "deadlock: nothing can run any more, and member 0 waits for the other members in an "
            "all-reduce of thing 1 (4 bytes); member 1 waits for somebody to send thing 2 (4 "
            "bytes)");
}

TEST_F(CopyErrors, TooManyMembersAreRefused) {
  GroupMembers members(NewMachine(kMostCopyMembers + 1), kMostCopyMembers + 1);
  for (int m = 0; m < members.count(); ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, 4, 1));
  }
  EXPECT_EQ(members.Run().message(),
            "an all-reduce of thing 1 (4 bytes) among 65 ranks of one process: at most 64 are "
            "possible");
}

// A whole step with every kind of call: from the first CUDA call to the last, each fails once; the
// error is a single status that names the call, no wait hangs, and all resources are freed.
TEST_F(CopyErrors, WhicheverCallFailsThereIsOneClearStatus) {
  const auto run = [](absl::Status* status) {
    auto made = CudaDevice::Make();
    if (!made.ok()) {
      *status = made.status();
      return;
    }
    CudaDevice& device = **made;
    CopyGroups groups(&device);
    Group* const group = groups.New({0, 1});
    std::deque<Call> calls;
    HostWork host;
    WorkTimes times;
    const absl::StatusOr<void*> memory = device.Allocate(4096);
    const absl::StatusOr<void*> pinned = device.AllocateHost(4096);
    for (const auto& got : {memory, pinned}) {
      if (got.ok()) continue;
      *status = got.status();
      return;
    }
    auto* const there = static_cast<char*>(*memory);
    const StreamId streams[] = {device.NewStream({}, 64), device.NewUrgentStream({}, 64)};
    const EventId event = device.NewEvent({});
    device.Launch(streams[0], host.Of([] {}), &times);
    device.Record(streams[0], event);
    device.Wait(streams[1], event);
    device.Copy(streams[1], there + 2048, *pinned, 64);
    const auto* const counts = reinterpret_cast<int32_t*>(there + 3072);
    const RowCounts rows = {counts, counts, 1, 4};
    for (const CallKind kind : {CallKind::kSend, CallKind::kAllGather, CallKind::kAllToAllCounted,
                                CallKind::kAllReduce, CallKind::kReduceScatter}) {
      for (int m = 0; m < 2; ++m) {
        Call call =
            CallOf(kind == CallKind::kSend && m == 1 ? CallKind::kRecv : kind, 64, 0, 1 - m);
        call.from = there + 1024 * m;
        call.to = there + 1024 * m + 512;
        call.rows = &rows;
        call.ended_ns = &times.end_ns;
        group->Enqueue(m, streams[m], &calls.emplace_back(call));
      }
    }
    *status = device.Synchronize();
    // A failed device keeps its error, and ends only once.
    if (!status->ok()) {
      EXPECT_EQ(device.Synchronize(), *status);
    }
  };
  for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorIllegalAddress}) {
    int failures = 0;
    for (int n = 1;; ++n) {
      standin_reset(7);
      absl::Status status;
      standin_fail_call(n, error);
      run(&status);
      if (standin_failed_call() == nullptr) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      const std::string call = standin_failed_call();
      // Only calls that clean up may fail without an error.
      if (status.ok()) {
        EXPECT_TRUE(call == "cudaFree" || call == "cudaFreeHost" || call == "cudaEventDestroy" ||
                    call == "cudaStreamDestroy" || call == "cudaStreamQuery" ||
                    call == "cudaSetDevice" || call == "cudaGetDevice")
            << n << " " << call;
        continue;
      }
      ++failures;
      if (status.code() == absl::StatusCode::kUnavailable) {
        EXPECT_EQ(call, "cudaGetDeviceCount");
        continue;
      }
      const bool launched = call == "a kernel's launch" || call == "cudaLaunchHostFunc";
      EXPECT_EQ(status.message().find(launched ? "work on #" : call), 0u) << n << " " << status;
      EXPECT_NE(status.message().find(cudaGetErrorName(error)), std::string::npos) << status;
    }
    EXPECT_GT(failures, 60);
  }
}

}  // namespace
}  // namespace stringline
