// Messages of collectives that go before their receivers are known to be ready: those that come
// early, those of calls that differ, and members that die or stop between.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/group.h"
#include "executor/processes/tcp_world.h"
#include "executor/processes/wire_lanes.h"
#include "gtest/gtest.h"
#include "tests/executor/group_contract.h"
#include "tests/executor/random_calls.h"
#include "tests/nccl/status_text.h"
#include "tests/nccl/world_processes.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

using Said = std::vector<std::string>;

GroupMachine MachineOf(World* world, int threads, const WireSettings& settings = {}) {
  GroupMachine machine;
  auto device = *CpuDevice::Make(threads);
  machine.groups = std::make_unique<ProcessGroups>(device.get(), world, settings);
  machine.device = std::move(device);
  machine.local.assign(world->local().begin(), world->local().end());
  machine.work_of = WorkOfThreads();
  return machine;
}

TEST(Unasked, RandomCallsOnSeveralGroupsEqualASerialReference) {
  const unsigned seed = std::random_device{}();
  for (const auto& [processes, ranks] : {std::pair(1, 1), {2, 2}, {2, 5}, {3, 3}, {4, 4}}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", processes, " processes, ", ranks, " ranks"));
      const Said said = RunInProcesses(processes, ranks, [&, ranks = ranks](World* world) {
        SCOPED_TRACE(absl::StrCat("seed ", seed, ", process ", world->process()));
        RandomCallsEqualTheReference([&] { return MachineOf(world, threads); }, ranks, seed);
        return "equal";
      });
      EXPECT_EQ(said, Said(processes, "equal"));
    }
  }
}

// Rank 1 comes to the sum only when a later message of the same connection has come: the part of
// rank 0 has been kept till then.
TEST(Unasked, WhatComesEarlyIsKept) {
  for (const int64_t bytes : {4, 4096, 4100}) {
    const Said said = RunInProcesses(2, 2, [&](World* world) -> std::string {
      GroupMembers members(MachineOf(world, 1), 2);
      const int own = world->process();
      Group* const other = members.groups()->New({0, 1});
      const absl::Status connected = members.groups()->Connect();
      if (!connected.ok()) return StatusText(connected);
      const auto count = static_cast<size_t>(bytes / 4);
      std::vector<float> values(count), message(1, 5);
      std::iota(values.begin(), values.end(), static_cast<float>(100 * own));
      Call sum = CallOf(CallKind::kAllReduce, bytes, 1);
      sum.from = sum.to = values.data();
      Call later = CallOf(own == 0 ? CallKind::kSend : CallKind::kRecv, 4, 2, 1 - own);
      later.from = later.to = message.data();
      const StreamId second = own == 0 ? members.device().NewStream({}, 8) : members.stream(1);
      if (own == 0) members.Enqueue(own, sum);
      other->Enqueue(own, second, &later);
      if (own == 1) members.Enqueue(own, sum);
      const absl::Status status = members.Run();
      if (!status.ok()) return StatusText(status);
      return absl::StrCat(values[0], " ", values.back());
    });
    EXPECT_EQ(said, Said(2, absl::StrCat(100, " ", 100 + 2 * (bytes / 4 - 1)))) << bytes;
  }
}

struct Differing {
  const char* name;
  CallKind kinds[2];  // of the calls of rank 0 and of rank 1
  int64_t bytes[2];
  int peers[2];
};

// The calls of two ranks differ, in size across what goes unasked, or in kind. Both are named.
TEST(Unasked, CallsThatDifferAreNamedBoth) {
  constexpr int64_t kSmall = 64, kLarge = 100'000;
  const Differing cases[] = {
      {"small sizes", {CallKind::kAllReduce, CallKind::kAllReduce}, {kSmall, 32}, {-1, -1}},
      {"small and large", {CallKind::kAllReduce, CallKind::kAllReduce}, {kSmall, kLarge}, {-1, -1}},
      {"large and small", {CallKind::kAllGather, CallKind::kAllGather}, {kLarge, kSmall}, {-1, -1}},
      {"kinds", {CallKind::kAllGather, CallKind::kAllReduce}, {kSmall, kSmall}, {-1, -1}},
      {"a send", {CallKind::kSend, CallKind::kAllReduce}, {kSmall, kSmall}, {1, -1}},
      {"a receive", {CallKind::kRecv, CallKind::kAllReduce}, {kSmall, kSmall}, {1, -1}},
      {"a broadcast from here", {CallKind::kBroadcast, CallKind::kAllReduce}, {64, 64}, {0, -1}},
      {"a broadcast to here", {CallKind::kBroadcast, CallKind::kAllReduce}, {64, 64}, {1, -1}},
  };
  for (const Differing& c : cases) {
    for (const bool swapped : {false, true}) {
      const auto at = [&](int rank) { return swapped ? 1 - rank : rank; };
      const auto call_of = [&](int rank) {
        const int i = at(rank), peer = c.peers[i];
        return CallOf(c.kinds[i], c.bytes[i], 7, peer < 0 ? -1 : at(peer));
      };
      const Said said = RunInProcesses(2, 2, [&](World* world) {
        GroupMembers members(MachineOf(world, 1), 2);
        std::vector<float> from(2 * kLarge), to(2 * kLarge);
        Call call = call_of(world->process());
        call.from = from.data();
        call.to = to.data();
        members.Enqueue(world->process(), call);
        return StatusText(members.Run());
      });
      for (const std::string& text : said) {
        for (const int rank : {0, 1}) {
          const std::string described =
              absl::StrCat(DescribeWithAction(call_of(rank)), " of rank ", rank, " here");
          EXPECT_TRUE(absl::StrContains(text, described)) << c.name << ": " << text;
        }
        EXPECT_TRUE(absl::StrContains(text, " met ")) << c.name << ": " << text;
        EXPECT_EQ(text, said[0]) << c.name;
      }
    }
  }
}

// Rank 0 sends other rows than rank 1 expects; one of them may take the message for a small one.
// The second call is for rank 0, which has done its part of the first.
TEST(Unasked, CountsThatDifferAreNamed) {
  for (const auto& [sent, expected] : {std::pair(1, 2), {1, 2000}, {2000, 1}}) {
    const Said said = RunInProcesses(2, 2, [&, sent = sent, expected = expected](World* world) {
      GroupMembers members(MachineOf(world, 1), 2);
      const int own = world->process();
      const std::vector<int32_t> none = {0, 0}, out = {0, sent}, in = {expected, 0};
      std::vector<int32_t> from(4000), to(4000);
      Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
      call.from = from.data();
      call.to = to.data();
      call.rows =
          members.Keep({(own == 0 ? out : none).data(), (own == 1 ? in : none).data(), 1, 4000});
      members.Enqueue(own, call);
      members.Enqueue(own, call);
      return StatusText(members.Run());
    });
    for (const std::string& text : said) {
      EXPECT_TRUE(absl::StrContains(
          text, absl::StrCat("member 0, rank 0 here, sends ", sent,
                             " rows to member 1, rank 1 here, which expects ", expected)))
          << text;
    }
  }
}

// Rank 1 has sent its part, and waits for rank 2, which is late; `then` happens to rank 1.
Said SumWithout(const WireSettings& settings, const std::function<void()>& then,
                const std::function<void()>& late) {
  return RunInProcesses(3, 3, [&](World* world) {
    GroupMembers members(MachineOf(world, 1, settings), 3);
    const int own = world->process();
    std::vector<float> values(4, 1);
    Call call = CallOf(CallKind::kAllReduce, 16, 7);
    call.from = call.to = values.data();
    (void)world->Exchange("");
    if (own == 1) then();
    if (own == 2) members.Do(2, late);
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
}

TEST(Unasked, WhoDiesAfterItsPartIsNamed) {
  const Said said = SumWithout(
      {}, [] { KillMeAfter(300'000); }, [] { usleep(1'500'000); });
  ExpectDeathNamed(said, 1);
}

// The one that comes to no call is named, by those who have sent it their parts.
TEST(Unasked, WhoIsLateIsNamed) {
  WireSettings settings;
  settings.wait_ms = 1000;
  const Said said = SumWithout(
      settings, [] {}, [] { usleep(4'000'000); });
  for (const std::string& text : said) {
    EXPECT_TRUE(absl::StartsWith(text, "DEADLINE_EXCEEDED: rank 2 here still computes")) << text;
    EXPECT_TRUE(absl::StrContains(text, " s for it in an all-reduce of thing 7 (16 bytes)"))
        << text;
  }
}

// Lanes of process 0 of two.
class UnaskedLanes : public testing::Test {
 protected:
  class NamesOnly final : public World {
   public:
    int ranks() const override { return 2; }
    absl::Span<const int> local() const override { return local_; }
    int processes() const override { return 2; }
    int process() const override { return 0; }
    absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view) override {
      return absl::UnimplementedError("");
    }
    void Fail(const absl::Status&) override {}

   private:
    const std::vector<int> local_ = {0};
  };

  UnaskedLanes() : waits_(device_.get(), poll_.wake()), names_(NamesOnly()) {
    for (int p = 0; p < 2; ++p) {
      names_.Add(p, "a", {p});
      connections_.emplace_back(p, &waits_, &poll_);
      connections_.back().Open(socket(AF_INET, SOCK_STREAM, 0));
    }
    lanes_.emplace(&names_, &connections_, &waits_);
    (void)lanes_->NewGroup({0, 1});
  }
  WireHeader HeaderOf(const Call& call) const {
    return {.kind = WireFrame::kUnasked,
            .call = call.kind,
            .group = 0,
            .from = 1,
            .to = 0,
            .peer = call.peer,
            .bytes = call.bytes,
            .index = call.name.index,
            .room = call.bytes,
            .length = call.bytes};
  }
  // A frame of process 1; false if it is refused.
  bool Come(const WireHeader& header, const void* bytes) {
    void* target = nullptr;
    if (!lanes_->MayCome(1, header, &target)) return false;
    if (header.length > 0) std::memcpy(target, bytes, static_cast<size_t>(header.length));
    EXPECT_TRUE(lanes_->Come(header, "").ok());
    return true;
  }
  bool Waits() const { return lanes_->Oldest().has_value(); }

  std::unique_ptr<CpuDevice> device_ = *CpuDevice::Make(1);
  WirePoll poll_;
  WireWaits waits_;
  ProcessNames names_;
  std::deque<WireConnection> connections_;
  std::optional<WireLanes> lanes_;
};

TEST_F(UnaskedLanes, KeepAsManyAsOneCallSends) {
  const Call call = CallOf(CallKind::kAllToAllCounted, 4, 7);
  WireHeader header = HeaderOf(call);
  RowCounts rows;
  Call counted = call;
  counted.rows = &rows;
  header.shape = ShapeOfRows(counted);
  const int most = 1 + kMostRowArrays;
  for (int32_t i = 0; i < most; ++i) EXPECT_TRUE(Come(header, &i)) << i;
  int32_t value = 0;
  EXPECT_FALSE(Come(header, &value));
  // Each receive takes one, in their order, and makes room for another.
  for (int32_t i = 0; i < 3 * most; ++i) {
    value = -1;
    const Transfer receive = {
        .from = 1, .to = 0, .target = &value, .bytes = 4, .call = &counted, .mutual = true};
    const int waiting = waits_.Add({StreamId(), 0, nullptr}, 2);
    EXPECT_TRUE(lanes_->PostReceive(0, receive, waiting).ok());
    EXPECT_FALSE(Waits());
    EXPECT_EQ(value, i);
    const int32_t next = i + most;
    EXPECT_TRUE(Come(header, &next));
  }
}

TEST_F(UnaskedLanes, RefuseWhatNoCallSends) {
  const std::vector<char> bytes(1 << 16);
  WireHeader header = HeaderOf(CallOf(CallKind::kAllReduce, 4100, 7));
  EXPECT_FALSE(Come(header, bytes.data()));  // larger than what goes unasked
  header = HeaderOf(CallOf(CallKind::kAllReduce, 4096, 7));
  header.room = 8;
  EXPECT_FALSE(Come(header, bytes.data()));  // other bytes than it says
  header.room = 4096;
  EXPECT_TRUE(Come(header, bytes.data()));
  header.kind = WireFrame::kData;
  EXPECT_FALSE(Come(header, bytes.data()));  // for which nobody was ready
}

// An idle thread looks outside before it sleeps, and what it ends there goes on.
TEST(Lookout, AnIdleThreadEndsWhatComes) {
  for (const int threads : {1, 3}) {
    const auto device = *CpuDevice::Make(threads);
    class Ends final : public Lookout {
     public:
      bool LookOut(int64_t since_ns) override {
        EXPECT_GT(since_ns, 0);
        if (++looks_ % 4 != 0) return true;
        if (waits.valid()) device->GoOn(std::exchange(waits, StreamId()));
        return true;
      }
      CpuDevice* device = nullptr;
      StreamId waits;

     private:
      int looks_ = 0;
    } ends;
    ends.device = device.get();
    device->LookAt(&ends);
    const StreamId stream = device->NewStream({}, 64);
    const Outside outside = {[](const void* link, StreamId waiting, const void*) {
                               const_cast<Ends*>(static_cast<const Ends*>(link))->waits = waiting;
                             },
                             &ends};
    for (int i = 0; i < 50; ++i) device->Await(stream, &outside, nullptr);
    EXPECT_TRUE(device->Synchronize().ok());
    device->LookAt(nullptr);
  }
}

}  // namespace
}  // namespace stringline
