#include "tools/bench/control.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "schedlang/base/clock.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr int64_t kProcessorNs = 25'000'000;
constexpr int kRoundsAtOnce = 4096;

// Every round depends on the round before.
uint64_t SpinRounds(uint64_t x) {
  for (int i = 0; i < kRoundsAtOnce; ++i) x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15U;
  return x;
}

}  // namespace

ControlReading ReadControl() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::atomic<int64_t> rounds = 0, processor_ns = 0, longest_ns = 0;
  std::atomic<uint64_t> sink = 0;
  std::atomic<int> ready = 0;
  WorkOnThreads(cores, [&] {
    // All begin at once, but no thread waits longer than 1 ms for the others to start.
    ++ready;
    const int64_t patience_ns = NowNs() + 1'000'000;
    while (ready < cores && NowNs() < patience_ns) {
    }
    const int64_t began_ns = NowNs(), spent_ns = ThreadProcessorNs();
    int64_t here = 0, used_ns = 0;
    uint64_t x = 1;
    while (used_ns < kProcessorNs) {
      x = SpinRounds(x);
      here += kRoundsAtOnce;
      used_ns = ThreadProcessorNs() - spent_ns;
    }
    const int64_t took_ns = NowNs() - began_ns;
    sink += x;
    rounds += here;
    processor_ns += used_ns;
    for (int64_t seen = longest_ns; took_ns - used_ns > seen;) {
      if (longest_ns.compare_exchange_weak(seen, took_ns - used_ns)) break;
    }
  });
  ControlReading reading;
  reading.late = static_cast<double>(longest_ns) / static_cast<double>(kProcessorNs);
  reading.speed = 1e3 * static_cast<double>(rounds) / static_cast<double>(processor_ns);
  return reading;
}

}  // namespace stringline
