// The machine's clock. Streams and recorder ask their device, which may have another.
#pragma once

#include <chrono>
#include <cstdint>

namespace stringline {

// Nanoseconds since some fixed moment; never goes back.
int64_t NowNs();

// Nanoseconds of processor time spent on this process, in its own code and in the system's.
int64_t ProcessorNs();
// The same of this thread alone.
int64_t ThreadProcessorNs();

// The time point at `ns` of NowNs, for the timed waits of condition variables.
std::chrono::steady_clock::time_point TimeAt(int64_t ns);

// While alive, this thread's sleeps end on time, not up to 50 us later (Linux's default slack).
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
