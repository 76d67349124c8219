// The streams of a CpuDevice that can run, those that are held until a moment, and how long they
// run at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace stringline {

struct MeetingPlace;

// Streams in the order in which they became runnable, with room for every one. Changes need the
// device's lock; others may look at the count without it.
class RunnableStreams {
 public:
  void MakeRoom(size_t streams) { ring_.resize(streams); }
  void Add(int stream) {
    const int there = count();
    ring_[(first_ + static_cast<size_t>(there)) % ring_.size()] = stream;
    count_.store(there + 1, std::memory_order_relaxed);
  }
  // The first of some.
  int Take() {
    const int stream = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    count_.store(count() - 1, std::memory_order_relaxed);
    return stream;
  }
  int count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::vector<int> ring_;
  size_t first_ = 0;
  std::atomic<int> count_{0};
};

// The end of a hold. A stream has at most one timer, and a meeting one for all of its streams.
struct Timer {
  int64_t due_ns = 0;
  int stream = -1;
  MeetingPlace* place = nullptr;  // for a meeting: all its streams
  friend bool operator>(const Timer& a, const Timer& b) { return a.due_ns > b.due_ns; }
};

class Timers {
 public:
  void MakeRoom(size_t streams) {
    if (heap_.capacity() < streams) heap_.reserve(2 * streams);
  }
  // True if the timer is now the first.
  bool Add(const Timer& timer) {
    const bool first = heap_.empty() || timer.due_ns < heap_.front().due_ns;
    heap_.push_back(timer);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    return first;
  }
  // The first of some.
  Timer Take() {
    const Timer timer = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    return timer;
  }
  void Clear() { heap_.clear(); }
  bool empty() const { return heap_.empty(); }
  int64_t due_ns() const { return heap_.front().due_ns; }  // of the first of some

 private:
  std::vector<Timer> heap_;  // the first due on top
};

// The longest time, fading, that a stream has lately run without a pause. Changes need the device's
// lock.
class RecentSlices {
 public:
  // Returns the end, with which the next slice begins.
  int64_t Note(int64_t begin_ns, int64_t end_ns) {
    const int64_t faded_ns = longest_ns_.load(std::memory_order_relaxed) * 15 / 16;
    longest_ns_.store(std::max(end_ns - begin_ns, faded_ns), std::memory_order_relaxed);
    return end_ns;
  }
  // Shorter work is done sooner by a running thread than by a thread that must first wake up.
  bool WorthAnotherThread() const {
    constexpr int64_t kWorthWakingNs = 4'000;
    return longest_ns_.load(std::memory_order_relaxed) >= kWorthWakingNs;
  }

 private:
  std::atomic<int64_t> longest_ns_{1'000'000};
};

}  // namespace stringline
