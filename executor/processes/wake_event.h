// Wakes a thread that polls: an event counter of the system.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"

namespace stringline {

class WakeEvent {
 public:
  WakeEvent() = default;
  ~WakeEvent() {
    if (fd_ >= 0) (void)close(fd_);
  }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  absl::Status Open() {
    fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return fd_ < 0 ? absl::ResourceExhaustedError(std::strerror(errno)) : absl::OkStatus();
  }
  // To be polled for input; -1 until Open.
  int fd() const { return fd_; }
  // Nothing before Open.
  void Wake() {
    const uint64_t one = 1;
    if (fd_ >= 0) (void)!write(fd_, &one, sizeof(one));
  }
  void Clear() {
    uint64_t woken = 0;
    (void)!read(fd_, &woken, sizeof(woken));
  }

 private:
  int fd_ = -1;
};

}  // namespace stringline
