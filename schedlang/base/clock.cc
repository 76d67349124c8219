#include "schedlang/base/clock.h"

#include <time.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace stringline {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {

int64_t SpentNs(clockid_t clock) {
  timespec spent = {};
  (void)clock_gettime(clock, &spent);
  return int64_t{spent.tv_sec} * 1'000'000'000 + spent.tv_nsec;
}

}  // namespace

int64_t ProcessorNs() { return SpentNs(CLOCK_PROCESS_CPUTIME_ID); }

int64_t ThreadProcessorNs() { return SpentNs(CLOCK_THREAD_CPUTIME_ID); }

std::chrono::steady_clock::time_point TimeAt(int64_t ns) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::nanoseconds(ns)));
}

SharpTimers::SharpTimers() {
#if defined(__linux__)
  slack_before_ns_ = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack_before_ns_ > 1) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
#endif
}

SharpTimers::~SharpTimers() {
#if defined(__linux__)
  if (slack_before_ns_ > 1) prctl(PR_SET_TIMERSLACK, slack_before_ns_, 0, 0, 0);
#endif
}

}  // namespace stringline
