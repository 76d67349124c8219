// Messages and exchanges over a slowed wire, in the time of the stand-in.
#include <cstring>
#include <memory>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {
namespace {

constexpr int64_t kLatencyNs = 2'000'000;
constexpr double kBytesPerS = 1e6;
constexpr int64_t kMembers = 3;

// The duration of one call, issued and replayed, while all other work takes no time.
class SlowWire : public testing::Test {
 protected:
  void SetUp() override {
    standin_reset(7);
    standin_set_op_ns(0);
    standin_set_call_ns(0);
    device_ = *CudaDevice::Make();
    groups_ = std::make_unique<CopyGroups>(device_.get(), LinkSpeed{kLatencyNs, kBytesPerS});
    group_ = groups_->New(std::vector<int>(kMembers));
    for (int m = 0; m < kMembers; ++m) streams_.push_back(device_->NewStream({}, 16));
  }
  char* Bytes() { return static_cast<char*>(*device_->Allocate(4096)); }
  Call CallOf(CallKind kind, int64_t bytes) {
    Call call;
    call.kind = kind;
    call.bytes = bytes;
    call.from = Bytes();
    call.to = Bytes();
    return call;
  }
  // Enqueues the calls of the group's first members, which all take the same time.
  void ExpectTakes(std::vector<Call> calls, int64_t expected_ns) {
    std::vector<int64_t> ended_ns(calls.size());
    const Work nothing = {[](const void*, int64_t, NativeStream) {}, nullptr, 0};
    WorkTimes times;
    const auto enqueue = [&] {
      for (size_t m = 0; m < calls.size(); ++m) {
        if (m == 0) device_->Launch(streams_[m], nothing, &times);
        calls[m].ended_ns = &ended_ns[m];
        group_->Enqueue(static_cast<int>(m), streams_[m], &calls[m]);
      }
    };
    for (const bool captured : {false, true}) {
      enqueue();
      if (captured) {
        const auto graph = device_->Capture();
        ASSERT_TRUE(graph.ok()) << graph.status();
        device_->Replay(*graph);
      }
      const absl::Status status = device_->Synchronize();
      ASSERT_TRUE(status.ok()) << status;
      for (const int64_t ended : ended_ns) {
        // Times of events are floats of milliseconds.
        EXPECT_NEAR(static_cast<double>(ended - times.end_ns), static_cast<double>(expected_ns),
                    1000)
            << (captured ? "captured" : "issued");
      }
    }
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CopyGroups> groups_;
  Group* group_ = nullptr;
  std::vector<StreamId> streams_;
};

int64_t TravelNs(int64_t bytes) { return LinkSpeed{kLatencyNs, kBytesPerS}.TransferNs(bytes); }

TEST_F(SlowWire, AMessageTakesLatencyAndBytes) {
  Call send = CallOf(CallKind::kSend, 1000), recv = CallOf(CallKind::kRecv, 1000);
  send.peer = 1;
  recv.peer = 0;
  std::memset(const_cast<void*>(send.from), 3, 1000);
  ExpectTakes({send, recv}, TravelNs(1000));
  EXPECT_EQ(static_cast<const char*>(recv.to)[999], 3);
}

TEST_F(SlowWire, AGatherTakesWhatAMemberSendsToOthers) {
  std::vector<Call> calls;
  for (int m = 0; m < kMembers; ++m) calls.push_back(CallOf(CallKind::kAllGather, 100));
  ExpectTakes(calls, TravelNs(200));
}

// Only the GPU knows the number of rows. Two arrays travel together, and counts if they are told.
TEST_F(SlowWire, CountedRowsTakeWhatTheBusiestMemberHas) {
  // [from][to]: member 0 sends five rows to others, member 2 gets seven.
  const int32_t rows[kMembers][kMembers] = {{9, 1, 4}, {0, 9, 3}, {0, 0, 9}};
  for (const bool tells : {false, true}) {
    std::vector<Call> calls;
    std::vector<RowCounts> counts(kMembers);
    for (int m = 0; m < kMembers; ++m) {
      auto* const from = reinterpret_cast<int32_t*>(Bytes());
      auto* const to = reinterpret_cast<int32_t*>(Bytes());
      for (int other = 0; other < kMembers; ++other) {
        from[other] = rows[m][other];
        to[other] = tells ? 0 : rows[other][m];
      }
      counts[m] = {from, tells ? nullptr : to, 1, 64, 20, to, {{Bytes(), Bytes(), 4}}};
      Call& call = calls.emplace_back(CallOf(CallKind::kAllToAllCounted, 40));
      call.rows = &counts[m];
    }
    ExpectTakes(calls, TravelNs(7 * 44 + (tells ? 2 * 4 : 0)));
  }
}

TEST_F(SlowWire, NobodyWaitsForHimself) {
  group_ = groups_->New({0});
  ExpectTakes({CallOf(CallKind::kAllGather, 100)}, 0);
}

}  // namespace
}  // namespace stringline
