// The contract of groups, and the errors of members in disagreement.
#include "executor/engine/group.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "gtest/gtest.h"
#include "tests/executor/group_contract.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

TEST(Group, CallsThatDifferInOneThingDoNotMatch) {
  const Call send = CallOf(CallKind::kSend, 64, 3, 1);
  EXPECT_TRUE(MatchCalls(send, CallOf(CallKind::kRecv, 64, 3, 0)).ok());
  EXPECT_EQ(MatchCalls(send, CallOf(CallKind::kRecv, 60, 3, 0)).message(),
            "a send of thing 3 (64 bytes) met a receive of thing 3 (60 bytes)");
  EXPECT_EQ(MatchCalls(send, CallOf(CallKind::kRecv, 64, 4, 0)).message(),
            "a send of thing 3 (64 bytes) met a receive of thing 4 (64 bytes)");
  const Call sum = CallOf(CallKind::kAllReduce, 64, 3);
  EXPECT_TRUE(MatchCalls(sum, sum).ok());
  EXPECT_EQ(MatchCalls(sum, CallOf(CallKind::kAllToAllCounted, 64, 3)).message(),
            "an all-reduce of thing 3 (64 bytes) met a counted all-to-all of thing 3 (64 bytes a "
            "row)");
  const int32_t counts[2] = {};
  int32_t told[2] = {};
  Call one = CallOf(CallKind::kAllToAllCounted, 64, 3), two = one;
  const RowCounts alone = {counts, counts, 1, 9},
                  pair = {counts, counts, 1, 9, 0, nullptr, {{counts, told, 4}}};
  const RowCounts tells = {counts, nullptr, 1, 9, 0, told, {{counts, told, 4}}};
  one.rows = two.rows = &pair;
  EXPECT_TRUE(MatchCalls(one, two).ok());
  two.rows = &alone;
  EXPECT_EQ(
      MatchCalls(one, two).message(),
      "a counted all-to-all of thing 3 (64 + 4 bytes a row) met a counted all-to-all of thing "
      "3 (64 bytes a row)");
  two.rows = &tells;
  EXPECT_EQ(
      MatchCalls(one, two).message(),
      "a counted all-to-all of thing 3 (64 + 4 bytes a row) met a counted all-to-all of thing "
      "3 (64 + 4 bytes a row, and counts)");
  EXPECT_FALSE(
      MatchCalls(CallOf(CallKind::kBroadcast, 64, 3, 0), CallOf(CallKind::kBroadcast, 64, 3, 1))
          .ok());
}

// All members belong to this process, on a device with `threads` threads.
GroupMachine NewMachine(int count, int threads) {
  auto device = *CpuDevice::Make(threads);
  GroupMachine machine;
  machine.groups = std::make_unique<ThreadGroups>(device.get());
  machine.device = std::move(device);
  for (int m = 0; m < count; ++m) machine.local.push_back(m);
  machine.work_of = WorkOfThreads();
  return machine;
}

class GroupTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(GroupTest, KeepsTheContract) {
  const int count = std::get<0>(GetParam()), threads = std::get<1>(GetParam());
  for (int time = 0; time < 6; ++time) {
    const unsigned seed = std::random_device{}();
    for (const NamedContract& contract : GroupContracts()) {
      SCOPED_TRACE(absl::StrCat(contract.name, ", seed ", seed));
      contract.check([&] { return NewMachine(count, threads); }, count, seed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MembersAndThreads, GroupTest,
                         testing::Combine(testing::Values(1, 2, 3, 5), testing::Values(1, 3)));

TEST(Group, MembersThatCallDifferentThingsAreNamed) {
  GroupMembers members(NewMachine(3, 2), 3);
  for (int m = 0; m < 3; ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, m == 2 ? 32 : 64, 7));
  }
  EXPECT_EQ(members.Run().message(),
            "an all-reduce of thing 7 (64 bytes) met an all-reduce of thing 7 (32 bytes)");
}

TEST(Group, RowsThatDoNotFitAreAnErrorAndNothingIsWritten) {
  GroupMembers members(NewMachine(2, 1), 2);
  const std::vector<int32_t> counts = {1, 2};
  const std::vector<int32_t> expected[2] = {{1, 1}, {2, 2}};
  std::vector<int32_t> rows(3, 5), got(8, -1);
  for (int m = 0; m < 2; ++m) {
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.from = rows.data();
    call.to = got.data() + 4 * m;
    call.rows = members.Keep({counts.data(), expected[m].data(), 1, 3});
    members.Enqueue(m, call);
  }
  const absl::Status status = members.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "a counted all-to-all of thing 1 (4 bytes a row): member 1 is sent 4 rows and has "
            "room for 3");
  EXPECT_EQ(got, std::vector<int32_t>(8, -1));
}

TEST(Group, CountsThatDoNotAgreeAreAnError) {
  GroupMembers members(NewMachine(2, 1), 2);
  const std::vector<int32_t> counts = {1, 1}, wrong = {1, 2};
  for (int m = 0; m < 2; ++m) {
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.rows = members.Keep({counts.data(), m == 0 ? wrong.data() : counts.data(), 1, 9});
    members.Enqueue(m, call);
  }
  EXPECT_EQ(members.Run().message(),
            "a counted all-to-all of thing 1 (4 bytes a row): member 1 sends 1 rows to member 0, "
            "which expects 2");
}

// Counted rows of two arrays, with counts that are told and without, against sums over a matrix of
// what each sends to each.
TEST(Group, TheBytesOfRowsAreThoseOfTheBusiestMember) {
  constexpr int kMembers = 3, kPerPiece = 2;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int time = 0; time < 20; ++time) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", time ", time));
    int32_t sent[kMembers][kMembers * kPerPiece], got[kMembers][kMembers * kPerPiece];
    int64_t out[kMembers] = {}, in[kMembers] = {};
    for (int from = 0; from < kMembers; ++from) {
      for (int i = 0; i < kMembers * kPerPiece; ++i) {
        const int to = i / kPerPiece;
        sent[from][i] = static_cast<int32_t>(random() % 10);
        got[to][from * kPerPiece + i % kPerPiece] = sent[from][i];
        if (to == from) continue;
        out[from] += sent[from][i];
        in[to] += sent[from][i];
      }
    }
    for (const bool tells : {false, true}) {
      Call calls[kMembers];
      RowCounts rows[kMembers];
      const Call* met[kMembers];
      int64_t most = 0;
      for (int m = 0; m < kMembers; ++m) {
        rows[m] = {sent[m], tells ? nullptr : got[m], kPerPiece, 99, 0, got[m], {{sent, got, 4}}};
        calls[m] = CallOf(CallKind::kAllToAllCounted, 100, 1);
        calls[m].rows = &rows[m];
        met[m] = &calls[m];
        const int64_t bytes =
            std::max(out[m], in[m]) * 104 + (tells ? (kMembers - 1) * kPerPiece * 4 : 0);
        EXPECT_EQ(BytesOnTheWay(calls[m], m, kMembers), bytes) << m << tells;
        most = std::max(most, bytes);
      }
      // Before a call has told counts nobody knows them.
      for (RowCounts& of : rows) of.told = nullptr;
      EXPECT_EQ(MostBytesOnTheWay(met), most) << tells;
    }
  }
}

// In an order in which NCCL would hang, the device names the waits of all streams.
TEST(Group, MembersThatCallInAnotherOrderAreADeadlockThatIsNamed) {
  GroupMembers members(NewMachine(2, 2), 2);
  members.Enqueue(0, CallOf(CallKind::kAllReduce, 4, 1));
  members.Enqueue(0, CallOf(CallKind::kSend, 4, 2, 1));
  members.Enqueue(1, CallOf(CallKind::kRecv, 4, 2, 0));
  members.Enqueue(1, CallOf(CallKind::kAllReduce, 4, 1));
  EXPECT_EQ(members.Run().message(),
            "deadlock: nothing can run any more, and member 0 waits for the other members in an "
            "all-reduce of thing 1 (4 bytes); member 1 waits for somebody to send thing 2 (4 "
            "bytes)");
}

// Every send reads 64 bytes; every receive has room for `room`.
class Ends final : public StageWork {
 public:
  explicit Ends(int64_t room) : room_(room) {}
  Piece Compute(const Action& /*action*/, LayerPart /*part*/) override {
    return Piece{{[](const void*, int64_t, NativeStream) {}, nullptr, 0}, {}, {}};
  }
  Bytes Payload(const Action& action) const override {
    return {nullptr, IsSend(action.kind) ? 64 : room_};
  }

 private:
  const int64_t room_;
};

absl::Status StepWith(const std::string& plan_text, StageWork* work) {
  const Plan plan = LoweredFrom(plan_text);
  CpuDevice device;
  ThreadGroups groups(&device);
  const auto step = Interpreter::Make(plan, work, &device, &groups, nullptr);
  if (!step.ok()) return step.status();
  (*step)->EnqueueStep();
  return device.Synchronize();
}

TEST(Group, AStepEndsWithAnErrorWhereLengthsDiffer) {
  const char* const plan =
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n";
  Ends fits(64);
  EXPECT_TRUE(StepWith(plan, &fits).ok());
  for (const int64_t room : {0, 63, 65, 128}) {
    Ends ends(room);
    const absl::Status status = StepWith(plan, &ends);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << room;
    EXPECT_EQ(status.message(),
              absl::StrCat("a send of the activation of stage 0, microbatch 0 (64 bytes) met a "
                           "receive of the activation of stage 0, microbatch 0 (",
                           room, " bytes)"));
  }
}

TEST(Interpreter, RefusesWhatNobodyPerforms) {
  Ends ends(64);
  const absl::Status status = StepWith(
      "plan one P=1 M=1\n"
      "stages 0\n"
      "rank 0: 0UNSHARD 0F0 0B0 0RESHARD 0REDUCE_GRAD\n",
      &ends);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "rank 0 cannot perform 0UNSHARD: there is nothing here that performs UNSHARD");
}

// Groups as made by several processes: requests for the same ranks return the same group.
class SharedGroups final : public Groups {
 public:
  explicit SharedGroups(CpuDevice* device) : own_(device) {}
  using Groups::New;
  Group* New(absl::Span<const int> ranks, absl::Span<const MemberPair> /*talks*/) override {
    Group*& group = by_ranks_[std::vector<int>(ranks.begin(), ranks.end())];
    if (group == nullptr) group = own_.New(ranks);
    return group;
  }
  int made() const { return static_cast<int>(by_ranks_.size()); }

 private:
  ThreadGroups own_;
  std::map<std::vector<int>, Group*> by_ranks_;
};

// Counts the work requested, and the work run.
class Counted final : public StageWork {
 public:
  Piece Compute(const Action& action, LayerPart part) override {
    if (part.part == kWPost && action.kind == ActionKind::kBackward) return {};
    ++asked_;
    return Piece{{[](const void* self, int64_t, NativeStream) {
                    ++static_cast<Counted*>(const_cast<void*>(self))->ran_;
                  },
                  this, 0},
                 {},
                 {}};
  }
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
  int asked() const { return asked_; }
  int ran() const { return ran_; }

 private:
  int asked_ = 0;
  std::atomic<int> ran_{0};
};

// Every rank with an interpreter of its own, as in separate processes: each requests only the work
// of its rank, and together they perform the step.
TEST(Interpreter, PerformsOnlyItsLocalRanks) {
  const Plan plan = LibraryPlan("zb_v", 4, 8).value();
  const auto device = CpuDevice::Make(2);
  ASSERT_TRUE(device.ok()) << device.status();
  SharedGroups groups(device->get());
  std::deque<Counted> works;
  std::vector<std::unique_ptr<Interpreter>> ranks;
  for (int r = 0; r < 4; ++r) {
    auto step = Interpreter::Make(plan, &works.emplace_back(), device->get(), &groups, nullptr,
                                  {.first_rank = 100, .local = {{RankId(r)}}});
    ASSERT_TRUE(step.ok()) << step.status();
    ranks.push_back(*std::move(step));
  }
  EXPECT_EQ(groups.made(), static_cast<int>(ChannelsOf(plan).all.size()));
  for (const auto& rank : ranks) rank->EnqueueStep();
  const absl::Status status = (*device)->Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  for (int r = 0; r < 4; ++r) {
    int computations = 0;
    for (const Action& action : plan.of(RankId(r))) computations += IsCompute(action.kind) ? 1 : 0;
    EXPECT_EQ(works[r].asked(), computations) << r;
    EXPECT_EQ(works[r].ran(), computations) << r;
  }
}

}  // namespace
}  // namespace stringline
