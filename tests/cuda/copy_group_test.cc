// Groups that copy on a GPU: where bytes go, in every order of the stand-in, and what happens where
// members disagree.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/copies/group.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

Call CallOf(CallKind kind, int64_t bytes, int64_t name, int peer = -1) {
  Call call;
  call.kind = kind;
  call.bytes = bytes;
  call.peer = peer;
  call.name = {[](const void*, int64_t i) { return absl::StrCat("thing ", i); }, nullptr, name};
  return call;
}

// A group of so many members, each with a stream. What is put into the GPU's memory gets there on
// the stream of its member, when that comes to it.
class CopyMembers {
 public:
  explicit CopyMembers(int count)
      : device_(*CudaDevice::Make()), groups_(device_.get()), count_(count) {
    group_ = groups_.New(std::vector<int>(count));
    for (int m = 0; m < count; ++m) {
      streams_.push_back(device_->NewStream(
          {[](const void*, int64_t i) { return absl::StrCat("member ", i); }, nullptr, m}, 256));
    }
  }
  int count() const { return count_; }
  CudaDevice& device() { return *device_; }
  StreamId stream(int member) const { return streams_[member]; }

  template <typename T>
  T* Memory(size_t size) {
    return static_cast<T*>(*device_->Allocate(static_cast<int64_t>(size * sizeof(T))));
  }
  template <typename T>
  T* Put(int member, const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    T* const there = Memory<T>(values.size());
    void* const here = *device_->AllocateHost(bytes);
    std::memcpy(here, values.data(), static_cast<size_t>(bytes));
    device_->Copy(streams_[member], there, here, bytes);
    return there;
  }
  // What is there when the member's stream comes here.
  template <typename T>
  const T* Fetch(int member, const T* there, size_t size) {
    const auto bytes = static_cast<int64_t>(size * sizeof(T));
    void* const here = *device_->AllocateHost(bytes);
    device_->Copy(streams_[member], here, there, bytes);
    return static_cast<const T*>(here);
  }
  void Enqueue(int member, const Call& call) { Enqueue(member, call, streams_[member]); }
  void Enqueue(int member, const Call& call, StreamId stream) {
    calls_.push_back(call);
    group_->Enqueue(member, stream, &calls_.back());
  }
  // The counts of a call to come.
  const RowCounts* Keep(const RowCounts& rows) { return &rows_.emplace_back(rows); }
  absl::Status Run() { return device_->Synchronize(); }

 private:
  std::unique_ptr<CudaDevice> device_;
  CopyGroups groups_;
  const int count_;
  Group* group_ = nullptr;
  std::vector<StreamId> streams_;
  std::deque<Call> calls_;
  std::deque<RowCounts> rows_;
};

float ValueOf(int member, int64_t i) { return static_cast<float>(1000 * member + i) * 0.37F; }

std::vector<float> ValuesOf(int member, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(ValueOf(member, i));
  return values;
}

class CopyGroupTest : public testing::TestWithParam<std::tuple<int, unsigned>> {
 protected:
  void SetUp() override { standin_reset(std::get<1>(GetParam())); }
  void TearDown() override { EXPECT_EQ(standin_alive(), 0); }
  int count() const { return std::get<0>(GetParam()); }
};

TEST_P(CopyGroupTest, AnAllReduceAddsUpInTheOrderOfTheMembers) {
  for (const int64_t elements : {1, 3, 16, 1000, 4099}) {
    CopyMembers members(count());
    std::vector<const float*> got;
    for (int m = 0; m < count(); ++m) {
      float* const values = members.Put(m, ValuesOf(m, elements));
      Call call = CallOf(CallKind::kAllReduce, elements * 4, 0);
      call.from = call.to = values;
      members.Enqueue(m, call);
      got.push_back(members.Fetch(m, values, elements));
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < elements; ++i) {
      float sum = ValueOf(0, i);
      for (int m = 1; m < count(); ++m) sum += ValueOf(m, i);
      for (int m = 0; m < count(); ++m) ASSERT_EQ(got[m][i], sum) << m << " " << i;
    }
  }
}

TEST_P(CopyGroupTest, PiecesGoWhereTheyBelong) {
  constexpr int64_t kPiece = 5;
  const int n = count();
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
    CopyMembers members(n);
    std::vector<const float*> got;
    for (int m = 0; m < n; ++m) {
      Call call = CallOf(c.kind, kPiece * 4, 0, n - 1);
      call.from = members.Put(m, ValuesOf(m, kPiece * n));
      call.to = members.Memory<float>(c.to_elements);
      members.Enqueue(m, call);
      // Nobody reads any more what is written over now.
      members.device().Copy(members.stream(m), const_cast<void*>(call.from),
                            *members.device().AllocateHost(kPiece * n * 4), kPiece * n * 4);
      got.push_back(members.Fetch(m, static_cast<float*>(call.to), c.to_elements));
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(standin_pageable_copies(), 0);
    for (int m = 0; m < n; ++m) {
      for (int64_t i = 0; i < c.to_elements; ++i) {
        ASSERT_EQ(got[m][i], c.expected(n, m, i)) << NameOf(c.kind) << " " << m << " " << i;
      }
    }
  }
}

// Counts that are known only when the call runs: an all-to-all of counts, then one of rows; several
// rounds of both on the same streams. Rows of all kinds of length.
TEST_P(CopyGroupTest, CountedRowsFollowTheirCounts) {
  std::mt19937 random(std::get<1>(GetParam()));
  const int n = count();
  constexpr int kPerPiece = 3;
  constexpr int kMost = 3;
  for (const int64_t row_bytes : {1, 8, 48}) {
    CopyMembers members(n);
    struct Round {
      std::vector<std::vector<int32_t>> sent;
      std::vector<const char*> got;
    };
    std::vector<Round> rounds(4);
    const auto byte_of = [](size_t round, int from, int to, int64_t i) {
      return static_cast<char>(17 * round + 31 * from + 7 * to + i);
    };
    const size_t room = kMost * kPerPiece * n * row_bytes;
    for (size_t r = 0; r < rounds.size(); ++r) {
      for (int m = 0; m < n; ++m) {
        std::vector<int32_t>& sent = rounds[r].sent.emplace_back();
        std::vector<char> rows;
        for (int to = 0; to < n; ++to) {
          int64_t bytes = 0;
          for (int k = 0; k < kPerPiece; ++k) {
            sent.push_back(static_cast<int32_t>(random() % (kMost + 1)));
            bytes += sent.back() * row_bytes;
          }
          for (int64_t i = 0; i < bytes; ++i) rows.push_back(byte_of(r, m, to, i));
        }
        rows.push_back(0);  // never empty
        Call counts = CallOf(CallKind::kAllToAll, kPerPiece * 4, 0);
        int32_t* const from_counts = members.Put(m, sent);
        int32_t* const to_counts = members.Memory<int32_t>(sent.size());
        counts.from = from_counts;
        counts.to = to_counts;
        members.Enqueue(m, counts);
        Call call = CallOf(CallKind::kAllToAllCounted, row_bytes, 1);
        call.from = members.Put(m, rows);
        call.to = members.Put(m, std::vector<char>(room + 16, -1));
        call.rows =
            members.Keep({from_counts, to_counts, kPerPiece, int64_t{kMost} * kPerPiece * n});
        members.Enqueue(m, call);
        rounds[r].got.push_back(members.Fetch(m, static_cast<char*>(call.to), room + 16));
      }
    }
    const absl::Status status = members.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (size_t r = 0; r < rounds.size(); ++r) {
      for (int m = 0; m < n; ++m) {
        size_t at = 0;
        for (int from = 0; from < n; ++from) {
          int64_t bytes = 0;
          for (int k = 0; k < kPerPiece; ++k) {
            bytes += rounds[r].sent[from][m * kPerPiece + k] * row_bytes;
          }
          for (int64_t i = 0; i < bytes; ++i) {
            ASSERT_EQ(rounds[r].got[m][at++], byte_of(r, from, m, i)) << r << " " << m;
          }
        }
        EXPECT_EQ(rounds[r].got[m][at], -1);
      }
    }
  }
}

// A call's plan is not written over by that of the next, which comes on other streams.
TEST_P(CopyGroupTest, CountedCallsOnOtherStreamsWaitForEachOther) {
  CopyMembers members(count());
  CudaDevice& device = members.device();
  HostWork host;
  struct Numbers {
    std::vector<int32_t> sent;
    const int32_t* got;
  };
  std::vector<std::vector<Numbers>> rounds(6);
  for (size_t r = 0; r < rounds.size(); ++r) {
    rounds[r].reserve(count());
    for (int m = 0; m < count(); ++m) {
      const StreamId stream = device.NewStream({}, 16);
      Numbers& own = rounds[r].emplace_back();
      // r + 1 rows to everybody.
      const auto each = static_cast<int32_t>(r + 1);
      for (int i = 0; i < each * count(); ++i) own.sent.push_back(100 * m + i);
      auto* const from = static_cast<int32_t*>(*device.Allocate(own.sent.size() * 4));
      auto* const to = static_cast<int32_t*>(*device.Allocate(own.sent.size() * 4));
      auto* const counts = static_cast<int32_t*>(*device.Allocate(count() * 4));
      device.Launch(stream, host.Of([from, counts, &own, each, n = count()] {
        std::copy(own.sent.begin(), own.sent.end(), from);
        std::fill_n(counts, n, each);
      }));
      Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
      call.from = from;
      call.to = to;
      call.rows = members.Keep({counts, counts, 1, int64_t{each} * count()});
      members.Enqueue(m, call, stream);
      own.got = to;
    }
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (size_t r = 0; r < rounds.size(); ++r) {
    const auto each = static_cast<int>(r + 1);
    for (int m = 0; m < count(); ++m) {
      for (int i = 0; i < each * count(); ++i) {
        ASSERT_EQ(rounds[r][m].got[i], rounds[r][i / each].sent[m * each + i % each])
            << r << " " << m << " " << i;
      }
    }
  }
}

// The sender fills its buffer again right after each send, and the receiver reads its own right
// after each receive.
TEST_P(CopyGroupTest, MessagesCarryWhatWasThereWhenTheyWereSent) {
  if (count() < 2) return;
  CopyMembers members(count());
  HostWork host;
  auto* const from = members.Memory<int>(1);
  auto* const to = members.Memory<int>(1);
  std::vector<int> got;
  constexpr int kMessages = 10;
  for (int i = 0; i < kMessages; ++i) {
    Call recv = CallOf(CallKind::kRecv, sizeof(int), i, 0);
    recv.to = to;
    members.Enqueue(1, recv);
    members.device().Launch(members.stream(1), host.Of([&got, to] { got.push_back(*to); }));
  }
  for (int i = 0; i < kMessages; ++i) {
    members.device().Launch(members.stream(0), host.Of([from, i] { *from = i; }));
    Call send = CallOf(CallKind::kSend, sizeof(int), i, 1);
    send.from = from;
    members.Enqueue(0, send);
  }
  const absl::Status status = members.Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(got.size(), size_t{kMessages});
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got[i], i);
}

TEST_P(CopyGroupTest, CallsSayWhenTheyEnded) {
  constexpr int64_t kMs = 1'000'000;
  standin_set_op_ns(kMs);
  CopyMembers members(count());
  HostWork host;
  std::vector<WorkTimes> after(count());
  std::vector<int64_t> ended_ns(count(), 0);
  for (int m = 0; m < count(); ++m) {
    // Whoever comes last decides.
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
  CopyMembers members(3);
  for (int m = 0; m < 3; ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, m == 2 ? 32 : 64, 7));
  }
  const absl::Status status = members.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "an all-reduce of thing 7 (64 bytes) met an all-reduce of thing 7 (32 bytes)");
}

TEST_F(CopyErrors, MessagesThatDifferAreNamed) {
  CopyMembers members(2);
  members.Enqueue(0, CallOf(CallKind::kSend, 64, 3, 1));
  members.Enqueue(1, CallOf(CallKind::kRecv, 60, 3, 0));
  EXPECT_EQ(members.Run().message(),
            "a send of thing 3 (64 bytes) met a receive of thing 3 (60 bytes)");
}

// Members that send 1 and 2 rows, to whom they believe; `to` is what they are ready to receive.
absl::Status RunRows(CopyMembers* members, const std::vector<int32_t> (&to_counts)[2], int64_t room,
                     const char* (&got)[2]) {
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
  CopyMembers members(2);
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
  CopyMembers members(2);
  const char* got[2];
  const absl::Status status = RunRows(&members, {{1, 2}, {2, 2}}, 9, got);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "a counted all-to-all of thing 1 (4 bytes a row): member 1 sends 1 rows to member 0, "
            "which expects 2");
  EXPECT_EQ(got[0][0], -1);
}

// The next call is fine, the one after it is not; what is told is the first fault.
TEST_F(CopyErrors, AFaultIsNotForgottenByTheNextCall) {
  CopyMembers members(1);
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
  CopyMembers members(2);
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
  CopyMembers members(kMostCopyMembers + 1);
  for (int m = 0; m < members.count(); ++m) {
    members.Enqueue(m, CallOf(CallKind::kAllReduce, 4, 1));
  }
  EXPECT_EQ(members.Run().message(),
            "an all-reduce of thing 1 (4 bytes) among 65 ranks of one process: at most 64 are "
            "possible");
}

// A whole step of everything: from the first call to the last, each fails once, and is told as one
// status that names it; nothing hangs, and all is given back.
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
    for (const CallKind kind : {CallKind::kSend, CallKind::kAllToAll, CallKind::kAllToAllCounted,
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
    // A device that failed stays so, and does not come to an end twice.
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
      // What only clears up may fail unheard.
      if (status.ok()) {
        EXPECT_TRUE(call == "cudaFree" || call == "cudaFreeHost" || call == "cudaEventDestroy" ||
                    call == "cudaStreamDestroy" || call == "cudaStreamQuery" ||
                    call == "cudaSetDevice")
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
