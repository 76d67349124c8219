// The contract of groups, and what happens where members disagree.
#include "executor/group.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/interpreter.h"
#include "executor/threads/group.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

LazyName Named(int64_t index) {
  return {[](const void*, int64_t i) { return absl::StrCat("thing ", i); }, nullptr, index};
}

Call CallOf(CallKind kind, int64_t bytes, int64_t name, int peer = -1) {
  Call call;
  call.kind = kind;
  call.bytes = bytes;
  call.peer = peer;
  call.name = Named(name);
  return call;
}

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
  EXPECT_FALSE(
      MatchCalls(CallOf(CallKind::kBroadcast, 64, 3, 0), CallOf(CallKind::kBroadcast, 64, 3, 1))
          .ok());
}

// A group of so many members, each with a stream, on a device with so many threads.
class Members {
 public:
  Members(int count, int threads)
      : device_(*CpuDevice::Make(threads)), groups_(device_.get()), count_(count) {
    std::vector<int> ranks(count);
    group_ = groups_.New(ranks);
    for (int m = 0; m < count; ++m) {
      streams_.push_back(device_->NewStream(
          {[](const void*, int64_t i) { return absl::StrCat("member ", i); }, nullptr, m}, 256));
    }
  }
  void Enqueue(int member, const Call& call) {
    calls_.push_back(call);
    group_->Enqueue(member, streams_[member], &calls_.back());
  }
  // The counts of a call to come.
  const RowCounts* Keep(const RowCounts& rows) { return &rows_.emplace_back(rows); }
  absl::Status Run() { return device_->Synchronize(); }
  int count() const { return count_; }

 private:
  std::unique_ptr<CpuDevice> device_;
  ThreadGroups groups_;
  const int count_;
  Group* group_ = nullptr;
  std::vector<StreamId> streams_;
  std::deque<Call> calls_;
  std::deque<RowCounts> rows_;
};

float ValueOf(int member, int64_t i) { return static_cast<float>(1000 * member + i) * 0.37F; }

class GroupTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int count() const { return std::get<0>(GetParam()); }
  int threads() const { return std::get<1>(GetParam()); }
  std::vector<std::vector<float>> Values(int64_t elements) const {
    std::vector<std::vector<float>> values(count(), std::vector<float>(elements));
    for (int m = 0; m < count(); ++m) {
      for (int64_t i = 0; i < elements; ++i) values[m][i] = ValueOf(m, i);
    }
    return values;
  }
};

TEST_P(GroupTest, AnAllReduceAddsUpInTheOrderOfTheMembers) {
  for (const int64_t elements : {1, 3, 1000, 5000}) {
    Members members(count(), threads());
    auto values = Values(elements);
    for (int m = 0; m < count(); ++m) {
      Call call = CallOf(CallKind::kAllReduce, elements * 4, 0);
      call.from = call.to = values[m].data();
      members.Enqueue(m, call);
    }
    ASSERT_TRUE(members.Run().ok());
    for (int64_t i = 0; i < elements; ++i) {
      float sum = ValueOf(0, i);
      for (int m = 1; m < count(); ++m) sum += ValueOf(m, i);
      for (int m = 0; m < count(); ++m) ASSERT_EQ(values[m][i], sum) << m << " " << i;
    }
  }
}

TEST_P(GroupTest, PiecesGoWhereTheyBelong) {
  constexpr int64_t kPiece = 5;
  const int n = count();
  const auto values = Values(kPiece * n);
  struct Case {
    CallKind kind;
    int64_t to_elements;
    float (*expected)(int n, int member, int64_t i);
  };
  const Case cases[] = {
      {CallKind::kAllToAll, kPiece * n,
       [](int, int member, int64_t i) {
         return ValueOf(static_cast<int>(i / kPiece), member * kPiece + i % kPiece);
       }},
      {CallKind::kAllGather, kPiece * n,
       [](int, int, int64_t i) { return ValueOf(static_cast<int>(i / kPiece), i % kPiece); }},
      {CallKind::kReduceScatter, kPiece,
       [](int n, int member, int64_t i) {
         float sum = ValueOf(0, member * kPiece + i);
         for (int m = 1; m < n; ++m) sum += ValueOf(m, member * kPiece + i);
         return sum;
       }},
      {CallKind::kBroadcast, kPiece, [](int n, int, int64_t i) { return ValueOf(n - 1, i); }},
  };
  for (const Case& c : cases) {
    Members members(n, threads());
    std::vector<std::vector<float>> to(n, std::vector<float>(c.to_elements));
    for (int m = 0; m < n; ++m) {
      Call call = CallOf(c.kind, kPiece * 4, 0, n - 1);
      call.from = values[m].data();
      call.to = to[m].data();
      members.Enqueue(m, call);
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (int m = 0; m < n; ++m) {
      for (int64_t i = 0; i < c.to_elements; ++i) {
        ASSERT_EQ(to[m][i], c.expected(n, m, i)) << NameOf(c.kind) << " " << m << " " << i;
      }
    }
  }
}

// Counts that are known only when the call runs: an all-to-all of counts, then one of rows.
TEST_P(GroupTest, CountedRowsFollowTheirCounts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const int n = count();
  constexpr int kPerPiece = 3;
  for (int round = 0; round < 20; ++round) {
    Members members(n, threads());
    std::vector<std::vector<int32_t>> sent(n), received(n);
    std::vector<std::vector<int32_t>> rows(n), got(n);
    for (int m = 0; m < n; ++m) {
      received[m].resize(n * kPerPiece);
      for (int to = 0; to < n; ++to) {
        for (int k = 0; k < kPerPiece; ++k) {
          sent[m].push_back(static_cast<int32_t>(random() % 4));
          for (int32_t i = 0; i < sent[m].back(); ++i) {
            rows[m].insert(rows[m].end(), {m, to * 100 + k * 10 + i});
          }
        }
      }
      got[m].assign(2 * 4 * kPerPiece * n, -1);
    }
    for (int m = 0; m < n; ++m) {
      Call counts = CallOf(CallKind::kAllToAll, kPerPiece * 4, 0);
      counts.from = sent[m].data();
      counts.to = received[m].data();
      members.Enqueue(m, counts);
      Call call = CallOf(CallKind::kAllToAllCounted, 8, 1);
      call.from = rows[m].data();
      call.to = got[m].data();
      const RowCounts counted = {sent[m].data(), received[m].data(), kPerPiece, 4 * kPerPiece * n};
      call.rows = members.Keep(counted);
      members.Enqueue(m, call);
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (int m = 0; m < n; ++m) {
      std::vector<int32_t> expected;
      for (int from = 0; from < n; ++from) {
        for (int k = 0; k < kPerPiece; ++k) {
          const int32_t count = sent[from][m * kPerPiece + k];
          for (int32_t i = 0; i < count; ++i) {
            expected.insert(expected.end(), {from, m * 100 + k * 10 + i});
          }
        }
      }
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got[m].begin())) << m;
      if (expected.size() < got[m].size()) {
        EXPECT_EQ(got[m][expected.size()], -1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MembersAndThreads, GroupTest,
                         testing::Combine(testing::Values(1, 2, 3, 5), testing::Values(1, 3)));

TEST(Group, MembersThatCallDifferentThingsAreNamed) {
  Members members(3, 2);
  for (int m = 0; m < 3; ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, m == 2 ? 32 : 64, 7));
  }
  EXPECT_EQ(members.Run().message(),
            "an all-reduce of thing 7 (64 bytes) met an all-reduce of thing 7 (32 bytes)");
}

TEST(Group, RowsThatDoNotFitAreAnErrorAndNothingIsWritten) {
  Members members(2, 1);
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
  Members members(2, 1);
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

// In an order in which NCCL would hang the device says who waits for what.
TEST(Group, MembersThatCallInAnotherOrderAreADeadlockThatIsNamed) {
  Members members(2, 2);
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

// Groups that several processes would have: whoever asks for the same ranks gets the same one.
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

// Counts what it is asked for, and what of that runs.
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

// Every rank with an interpreter of its own, as processes would have it: each is asked only for the
// work of its rank, and together they do the step.
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
