// The pauses between two looks at MPI, which has no call that sleeps until something comes: none at
// first, then longer and longer ones, so that a wait costs no more time than an eighth of what it
// has taken already, and a process that waits for long leaves the processor to others.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "schedlang/base/clock.h"

namespace stringline::mpi {

class Pauses {
 public:
  // Something came, or is awaited from now on.
  void Restart() { since_ns_ = NowNs(); }
  // The length of the next pause; 0: look at once.
  int64_t NextNs() const {
    const int64_t waited_ns = NowNs() - since_ns_;
    return waited_ns < kSpinNs ? 0 : std::clamp(waited_ns / 8, kLeastNs, kMostNs);
  }

  // Pauses at most so long.
  void Pause(int64_t most_ns = kMostNs) const {
    const timespec length = {0, std::min(NextNs(), most_ns)};
    if (length.tv_nsec > 0)
      (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
    else
      (void)sched_yield();
  }

 private:
  static constexpr int64_t kSpinNs = 50'000;
  static constexpr int64_t kLeastNs = 10'000;
  static constexpr int64_t kMostNs = 1'000'000;
  int64_t since_ns_ = NowNs();
};

}  // namespace stringline::mpi
