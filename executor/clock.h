// The machine's clock. Streams and recorder ask their device, which may have another.
#pragma once

#include <chrono>
#include <cstdint>

namespace stringline {

// Nanoseconds since some fixed moment; never goes back.
int64_t NowNs();

// Nanoseconds that processors have spent on this process, in its own code and in the system's.
int64_t ProcessorNs();
// The same of this thread alone.
int64_t ThreadProcessorNs();

// That moment as what a condition variable sleeps until.
std::chrono::steady_clock::time_point TimeAt(int64_t ns);

// While it lives, this thread's sleeps end when they should, and not up to 50 us later, which is
// what Linux allows itself otherwise.
class SharpTimers {
 public:
  SharpTimers();
  ~SharpTimers();
  SharpTimers(const SharpTimers&) = delete;
  SharpTimers& operator=(const SharpTimers&) = delete;

 private:
  int slack_before_ns_ = -1;
};

}  // namespace stringline
