#include "executor/clock.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace stringline {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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
