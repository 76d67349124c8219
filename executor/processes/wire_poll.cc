#include "executor/processes/wire_poll.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int kWake = -1;  // instead of a process

}  // namespace

WirePoll::~WirePoll() {
  if (fd_ >= 0) (void)close(fd_);
}

absl::Status WirePoll::Open() {
  SL_RETURN_IF_ERROR(wake_.Open());
  fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (fd_ < 0) return absl::ResourceExhaustedError(std::strerror(errno));
  Watch(wake_.fd(), kWake, 0, EPOLLIN);
  return absl::OkStatus();
}

void WirePoll::Watch(int fd, int process, uint32_t before, uint32_t events) {
  if (fd_ < 0 || fd < 0 || before == events) return;
  const int op = events == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  epoll_event event = {};
  event.events = events;
  event.data.fd = process;
  (void)epoll_ctl(fd_, op, fd, &event);
}

// The set's own wait counts in milliseconds; a shorter one is a wait for the set.
absl::Span<const WirePoll::Ready> WirePoll::Wait(int64_t most_ns) {
  int64_t most_ms = std::max<int64_t>(most_ns, 0) / kMsNs;
  if (most_ns > 0 && most_ns % kMsNs != 0) {
    pollfd set = {fd_, POLLIN, 0};
    const timespec longest = {most_ns / (1000 * kMsNs), most_ns % (1000 * kMsNs)};
    (void)ppoll(&set, 1, &longest, nullptr);
    most_ms = 0;
  }
  const int count = epoll_wait(fd_, events_.data(), kAtOnce, static_cast<int>(most_ms));
  size_t ready = 0;
  for (int i = 0; i < count; ++i) {
    if (events_[i].data.fd == kWake) {
      wake_.Clear();
    } else {
      ready_[ready++] = {events_[i].data.fd, events_[i].events};
    }
  }
  return absl::MakeConstSpan(ready_.data(), ready);
}

}  // namespace stringline
