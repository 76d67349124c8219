// The wait for the sockets of all connections at once, by a set of the system (epoll): a wait costs
// what is ready, and not what is open.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/processes/wake_event.h"

namespace stringline {

class WirePoll {
 public:
  WirePoll() = default;
  ~WirePoll();
  WirePoll(const WirePoll&) = delete;
  WirePoll& operator=(const WirePoll&) = delete;

  absl::Status Open();
  // Readable while something is ready.
  int fd() const { return fd_; }
  // Ends a wait, from any thread.
  WakeEvent* wake() { return &wake_; }
  // From any thread: from now on a wait ends at these events of the socket (EPOLLIN, EPOLLOUT), and
  // no longer at those of before; 0: at none. Nothing before Open.
  void Watch(int fd, int process, uint32_t before, uint32_t events);

  struct Ready {
    int process = 0;
    uint32_t events = 0;
  };
  // Waits until something is ready, or so long, and returns some of what is. To be called by one
  // thread; the result holds until the next call.
  absl::Span<const Ready> Wait(int64_t most_ns);

 private:
  static constexpr int kAtOnce = 64;

  int fd_ = -1;
  WakeEvent wake_;
  std::array<epoll_event, kAtOnce> events_ = {};
  std::array<Ready, kAtOnce> ready_ = {};
};

}  // namespace stringline
