// Streams, events and deadlocks of the CPU device.
#include "executor/cpu/device.h"

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/no_new_threads.h"

namespace stringline {
namespace {

struct Log {
  std::mutex mutex;
  std::vector<int64_t> order;
  Work Entry(int64_t entry) {
    return {[](const void* self, int64_t argument, NativeStream) {
              auto* log = static_cast<Log*>(const_cast<void*>(self));
              std::lock_guard<std::mutex> lock(log->mutex);
              log->order.push_back(argument);
            },
            this, entry};
  }
};

// Threads, and whether a further one carries urgent streams.
class DeviceTest : public testing::TestWithParam<std::pair<int, bool>> {
 protected:
  int threads() const { return GetParam().first; }
  absl::StatusOr<std::unique_ptr<CpuDevice>> Make() const {
    return CpuDevice::Make(threads(), nullptr, DeviceTime::kReal, GetParam().second);
  }
};

TEST_P(DeviceTest, WorkOfAStreamRunsInOrder) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  Log log;
  const StreamId stream = device.NewStream({}, 100);
  for (int step = 0; step < 3; ++step) {
    log.order.clear();
    for (int i = 0; i < 100; ++i) device.Launch(stream, log.Entry(i));
    ASSERT_TRUE(device.Synchronize().ok());
    ASSERT_EQ(log.order.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(log.order[i], i);
  }
}

TEST_P(DeviceTest, AnEventHoldsBackWhatWaitsForIt) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  Log log;
  const StreamId late = device.NewUrgentStream({}, 8);
  const StreamId early = device.NewStream({}, 8);
  const EventId event = device.NewEvent({});
  for (int step = 0; step < 200; ++step) {
    log.order.clear();
    device.Launch(early, log.Entry(1));
    device.Record(early, event);
    device.Wait(late, event);
    device.Launch(late, log.Entry(2));
    ASSERT_TRUE(device.Synchronize().ok());
    ASSERT_EQ(log.order, (std::vector<int64_t>{1, 2}));
  }
}

TEST_P(DeviceTest, AWaitMeansTheLatestRecordEnqueuedBeforeIt) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  Log log;
  const StreamId a = device.NewStream({}, 8);
  const StreamId b = device.NewUrgentStream({}, 8);
  const EventId event = device.NewEvent({});
  device.Wait(b, event);  // never recorded: delays nothing
  device.Launch(b, log.Entry(0));
  ASSERT_TRUE(device.Synchronize().ok());
  device.Launch(a, log.Entry(1));
  device.Record(a, event);
  device.Launch(a, log.Entry(2));
  device.Record(a, event);
  device.Wait(b, event);
  device.Launch(b, log.Entry(3));
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(log.order, (std::vector<int64_t>{0, 1, 2, 3}));
}

// A random directed acyclic graph of events over many streams: no work runs before its
// dependencies.
TEST_P(DeviceTest, RandomOrdersAreKept) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kStreams = 40;
  constexpr int kSteps = 400;
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  struct Item {
    std::vector<std::atomic<bool>>* done;
    std::vector<int> after;
    std::atomic<int>* violations;
  };
  std::vector<std::atomic<bool>> done(kSteps);
  std::atomic<int> violations{0};
  std::vector<Item> items(kSteps);
  std::vector<StreamId> streams;
  std::vector<EventId> events;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(i % 2 == 0 ? device.NewStream({}, 4 * kSteps)
                                 : device.NewUrgentStream({}, 4 * kSteps));
  }
  for (int i = 0; i < kSteps; ++i) events.push_back(device.NewEvent({}));
  for (int i = 0; i < kSteps; ++i) {
    items[i] = {&done, {}, &violations};
    const StreamId stream = streams[random() % kStreams];
    for (int k = 0; i > 0 && k < 2; ++k) {
      const int before = static_cast<int>(random() % i);
      items[i].after.push_back(before);
      device.Wait(stream, events[before]);
    }
    device.Launch(stream, {[](const void* self, int64_t index, NativeStream) {
                             const Item& item = *static_cast<const Item*>(self);
                             for (int before : item.after) {
                               if (!(*item.done)[before]) ++*item.violations;
                             }
                             (*item.done)[index] = true;
                           },
                           &items[i], i});
    device.Record(stream, events[i]);
  }
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(violations, 0);
  for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(done[i]) << i;
}

int exchanges = 0, left = 0;
absl::Status CountExchange(const void* /*link*/, MeetingPlace::Ends /*ends*/) {
  ++exchanges;
  return absl::OkStatus();
}
std::string DescribeEnd(const void* /*link*/, int side, const void* /*end*/) {
  return side == 0 ? "a partner on side 1" : "a partner on side 0";
}
MeetingPlace PlaceFor(int sides) {
  MeetingPlace place(sides, nullptr);
  place.exchange = CountExchange;
  place.describe = DescribeEnd;
  return place;
}

TEST_P(DeviceTest, ManyStreamsMeet) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  for (const int sides : {1, 3, 8}) {
    // No side goes on before all have come; each comes with an end of its own.
    struct Meeting {
      std::atomic<int> arrived{0};
      std::atomic<int> early{0};
      int sides = 0;
    } meeting;
    meeting.sides = sides;
    MeetingPlace place(sides, &meeting);
    place.describe = DescribeEnd;
    place.exchange = [](const void* link, MeetingPlace::Ends ends) {
      const auto& met = *static_cast<const Meeting*>(link);
      int64_t sum = 0;
      for (const void* const end : ends) sum += *static_cast<const int*>(end);
      return sum == met.sides * (met.sides - 1) / 2 ? absl::OkStatus()
                                                    : absl::InternalError("an end is missing");
    };
    std::vector<int> numbers(sides);
    for (int i = 0; i < sides; ++i) {
      numbers[i] = i;
      const StreamId stream = device.NewStream({}, 64);
      for (int round = 0; round < 5; ++round) {
        device.Launch(stream, {[](const void* self, int64_t, NativeStream) {
                                 ++static_cast<Meeting*>(const_cast<void*>(self))->arrived;
                               },
                               &meeting, 0});
        device.Meet(stream, &place, i, &numbers[i]);
        device.Launch(stream, {[](const void* self, int64_t argument, NativeStream) {
                                 auto& met = *static_cast<Meeting*>(const_cast<void*>(self));
                                 if (met.arrived < (argument + 1) * met.sides) ++met.early;
                               },
                               &meeting, round});
      }
    }
    const absl::Status status = device.Synchronize();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(meeting.early, 0) << sides;
    EXPECT_EQ(meeting.arrived, 5 * sides);
  }
}

TEST_P(DeviceTest, CopiesAndTimesStandInTheOrderOfTheStream) {
  const auto owned = CpuDevice::Make(threads(), nullptr, DeviceTime::kJumps);
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  const StreamId stream = device.NewStream({}, 8);
  int host = 1, there = 0, back = 0;
  WorkTimes doubled, held;
  const Work twice = {[](const void* self, int64_t, NativeStream) {
                        *static_cast<int*>(const_cast<void*>(self)) *= 2;
                      },
                      &there, 0};
  device.Hold(stream, 7'000);
  device.Copy(stream, &there, &host, sizeof host);
  device.Launch(stream, twice, &doubled);
  device.Copy(stream, &back, &there, sizeof back);
  device.Hold(stream, 5'000, &held);
  const int64_t start_ns = device.NowNs();
  host = 21;  // read when the stream comes to the copy
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(back, 42);
  EXPECT_EQ(doubled.start_ns - start_ns, 7'000);
  EXPECT_EQ(doubled.end_ns - start_ns, 7'000);
  EXPECT_EQ(held.start_ns - start_ns, 7'000);
  EXPECT_EQ(held.end_ns - start_ns, 12'000);
}

TEST_P(DeviceTest, TwoStreamsMeet) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  const StreamId a = device.NewStream({}, 8);
  const StreamId b = device.NewUrgentStream({}, 8);
  MeetingPlace place = PlaceFor(2);
  exchanges = 0;
  for (int i = 0; i < 3; ++i) {
    device.Meet(a, &place, 0, nullptr);
    device.Meet(b, &place, 1, nullptr);
  }
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(exchanges, 3);
}

TEST_P(DeviceTest, ADeadlockIsSeenAndNamed) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  const LazyName left = {[](const void*, int64_t) { return std::string("left"); }};
  const LazyName right = {[](const void*, int64_t) { return std::string("right"); }};
  const StreamId a = device.NewStream(left, 8);
  const StreamId b = device.NewUrgentStream(right, 8);
  MeetingPlace first = PlaceFor(2);
  MeetingPlace second = PlaceFor(2);
  device.Meet(a, &first, 0, nullptr);
  device.Meet(a, &second, 0, nullptr);
  device.Meet(b, &second, 1, nullptr);
  device.Meet(b, &first, 1, nullptr);
  const absl::Status status = device.Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "deadlock: nothing can run any more, and left waits for a partner on side 1; right "
            "waits for a partner on side 0");
  EXPECT_EQ(device.Synchronize(), status);  // the device stays in its error
}

TEST_P(DeviceTest, AHoldTakesItsTimeAndOthersGoOn) {
  constexpr int64_t kMs = 1'000'000;
  const auto owned = CpuDevice::Make(threads(), nullptr, DeviceTime::kJumps);
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  Log log;
  // Far more held streams than threads, all held at once; and one shorter hold.
  for (int i = 0; i < 20; ++i) {
    const StreamId stream = device.NewStream({}, 8);
    device.Hold(stream, 60 * kMs);
    device.Launch(stream, log.Entry(2));
  }
  const StreamId shorter = device.NewStream({}, 8);
  device.Hold(shorter, 20 * kMs);
  device.Launch(shorter, log.Entry(1));
  const StreamId free = device.NewStream({}, 8);
  device.Launch(free, log.Entry(0));
  const int64_t start_ns = device.NowNs();
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(device.NowNs() - start_ns, 60 * kMs);
  std::vector<int64_t> expected(20, 2);
  expected.insert(expected.begin(), {0, 1});
  EXPECT_EQ(log.order, expected);
}

TEST_P(DeviceTest, AHoldTakesRealTimeToo) {
  constexpr int64_t kMs = 1'000'000;
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  for (int i = 0; i < 20; ++i) device.Hold(device.NewStream({}, 8), 30 * kMs);
  const int64_t start_ns = device.NowNs();
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_GE(device.NowNs() - start_ns, 30 * kMs);
}

TEST_P(DeviceTest, AMeetingMayTakeTimeAndHoldsBothStreams) {
  constexpr int64_t kMs = 1'000'000;
  const auto owned = CpuDevice::Make(threads(), nullptr, DeviceTime::kJumps);
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  const StreamId a = device.NewStream({}, 8);
  const StreamId b = device.NewUrgentStream({}, 8);
  static constexpr int64_t kTime = 10 * kMs;
  MeetingPlace place(2, &kTime);
  place.exchange = CountExchange;
  place.describe = DescribeEnd;
  place.duration_ns = [](const void* link, MeetingPlace::Ends) {
    EXPECT_EQ(exchanges, 1 + left) << "the exchange comes first";
    return *static_cast<const int64_t*>(link);
  };
  place.leave = [](const void*, MeetingPlace::Ends) { ++left; };
  exchanges = left = 0;
  struct End {
    const CpuDevice* device;
    int64_t* ns;
  };
  int64_t ends_ns[2] = {0, 0};
  const End ends[2] = {{&device, &ends_ns[0]}, {&device, &ends_ns[1]}};
  const auto write_end = [](const void* self, int64_t, NativeStream) {
    const End& end = *static_cast<const End*>(self);
    *end.ns = end.device->NowNs();
  };
  for (int i = 0; i < 2; ++i) {
    device.Meet(a, &place, 0, nullptr);
    device.Meet(b, &place, 1, nullptr);
  }
  device.Launch(a, {write_end, &ends[0], 0});
  device.Launch(b, {write_end, &ends[1], 0});
  const int64_t start_ns = device.NowNs();
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(exchanges, 2);
  EXPECT_EQ(left, 2);
  for (const int64_t end_ns : ends_ns) EXPECT_EQ(end_ns - start_ns, 2 * kTime);
}

TEST_P(DeviceTest, ADeadlockIsSeenWhenTheLastHoldHasEnded) {
  const auto owned = Make();
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  const LazyName left = {[](const void*, int64_t) { return std::string("left"); }};
  const StreamId a = device.NewStream(left, 8);
  const StreamId b = device.NewUrgentStream({}, 8);
  MeetingPlace place = PlaceFor(2);
  Log log;
  device.Meet(a, &place, 0, nullptr);
  device.Hold(b, 20'000'000);
  device.Launch(b, log.Entry(1));
  const absl::Status status = device.Synchronize();
  EXPECT_EQ(status.message(),
            "deadlock: nothing can run any more, and left waits for a partner on side 1");
  EXPECT_EQ(log.order, (std::vector<int64_t>{1}));
}

// Any thread may meet the error: the caller of Synchronize may be asleep then.
TEST_P(DeviceTest, AnErrorEndsAllHolds) {
  for (int round = 0; round < 300; ++round) {
    const auto owned = Make();
    ASSERT_TRUE(owned.ok()) << owned.status();
    CpuDevice& device = **owned;
    const StreamId a = device.NewStream({}, 8);
    const StreamId b = device.NewUrgentStream({}, 8);
    const StreamId held = device.NewUrgentStream({}, 8);
    MeetingPlace place = PlaceFor(2);
    place.exchange = [](const void*, MeetingPlace::Ends) -> absl::Status {
      return absl::InvalidArgumentError("no match");
    };
    device.Hold(held, int64_t{3600} * 1'000'000'000);
    device.Hold(a, 200'000);
    device.Meet(a, &place, 0, nullptr);
    device.Meet(b, &place, 1, nullptr);
    ASSERT_EQ(device.Synchronize().message(), "no match");
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, DeviceTest,
                         testing::Values(std::pair(1, false), std::pair(2, false),
                                         std::pair(5, false), std::pair(1, true),
                                         std::pair(2, true), std::pair(5, true)));

// All threads compute until urgent streams have come to their end: those need no thread of them.
void MoveWhileAllCompute(int threads) {
  const auto owned = CpuDevice::Make(threads, nullptr, DeviceTime::kReal, /*carries=*/true);
  ASSERT_TRUE(owned.ok()) << owned.status();
  CpuDevice& device = **owned;
  struct Progress {
    std::atomic<int> computing{0};
    std::atomic<bool> arrived{false};
    std::atomic<int> late{0};
  } progress;
  MeetingPlace place = PlaceFor(2);
  place.duration_ns = [](const void*, MeetingPlace::Ends) -> int64_t { return 1'000'000; };
  const StreamId here = device.NewUrgentStream({}, 8), there = device.NewUrgentStream({}, 8);
  for (int step = 0; step < 3; ++step) {
    progress.computing = 0;
    progress.arrived = false;
    for (int i = 0; i < threads; ++i) {
      const StreamId stream = device.NewStream({}, 8);
      device.Launch(stream, {[](const void* self, int64_t, NativeStream) {
                               auto& of = *static_cast<Progress*>(const_cast<void*>(self));
                               ++of.computing;
                               const int64_t deadline_ns = NowNs() + 20'000'000'000;
                               while (!of.arrived && NowNs() < deadline_ns) {
                                 std::this_thread::yield();
                               }
                               if (!of.arrived) ++of.late;
                             },
                             &progress, 0});
    }
    device.Hold(here, 500'000);
    device.Meet(here, &place, 0, nullptr);
    device.Meet(there, &place, 1, nullptr);
    device.Launch(there, {[](const void* self, int64_t, NativeStream) {
                            static_cast<Progress*>(const_cast<void*>(self))->arrived = true;
                          },
                          &progress, 0});
    ASSERT_TRUE(device.Synchronize().ok());
    EXPECT_EQ(progress.computing, threads);
    EXPECT_EQ(progress.late, 0);
  }
}

TEST(CarryingDevice, MovesUrgentStreamsWhileAllThreadsCompute) {
  for (const int threads : {1, 2, 5}) MoveWhileAllCompute(threads);
}

TEST(DeviceMemory, IsAlignedAndZero) {
  CpuDevice device;
  for (int64_t bytes : {1, 64, 1000}) {
    const auto memory = device.Allocate(bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) EXPECT_EQ(static_cast<char*>(*memory)[i], 0);
  }
}

TEST(DeviceMemory, TooMuchIsAnError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer ends the program at such a request";
#endif
  CpuDevice device;
  EXPECT_EQ(device.Allocate(int64_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(DeviceThreads, ThatCannotBeStartedAreAnError) {
  absl::Status status, one;
  {
    const NoNewThreads none;
    status = CpuDevice::Make(4).status();
    one = CpuDevice::Make(1).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "3 threads are wanted, but the system started only 0 (Resource temporarily "
            "unavailable)");
  EXPECT_TRUE(one.ok()) << one;
  EXPECT_TRUE(CpuDevice::Make(4).ok());
}

}  // namespace
}  // namespace stringline
