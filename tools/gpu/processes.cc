#include "tools/gpu/processes.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

void WriteAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) return;
    at += static_cast<size_t>(wrote);
  }
}

}  // namespace

Processes::Processes(int count, const std::function<std::string(int)>& run) {
  for (int p = 0; p < count; ++p) {
    int ends[2];
    SL_CHECK(pipe(ends) == 0);
    (void)std::fflush(nullptr);
    const pid_t pid = fork();
    SL_CHECK(pid >= 0);
    if (pid == 0) {
      (void)close(ends[0]);
      for (const Child& before : children_) (void)close(before.pipe);
      WriteAll(ends[1], run(p));
      (void)std::fflush(nullptr);  // prints failed expectations
      _exit(0);
    }
    (void)close(ends[1]);
    children_.push_back({pid, ends[0]});
  }
}

Processes::~Processes() {
  for (const Child& child : children_) {
    if (child.pid < 0) continue;
    (void)kill(child.pid, SIGKILL);
    (void)waitpid(child.pid, nullptr, 0);
    (void)close(child.pipe);
  }
}

std::vector<std::string> Processes::Wait(int64_t timeout_ms) {
  const int64_t until_ns = NowNs() + timeout_ms * 1'000'000;
  std::vector<std::string> said(children_.size());
  for (size_t p = 0; p < children_.size(); ++p) {
    Child& child = children_[p];
    bool hung = false;
    while (true) {
      const int64_t left_ms = std::max<int64_t>((until_ns - NowNs()) / 1'000'000, 0);
      pollfd waiting = {child.pipe, POLLIN, 0};
      hung = poll(&waiting, 1, static_cast<int>(left_ms)) == 0;
      if (hung) break;
      char piece[4096];
      const ssize_t got = read(child.pipe, piece, sizeof(piece));
      if (got <= 0) break;
      said[p].append(piece, static_cast<size_t>(got));
    }
    if (hung) (void)kill(child.pid, SIGKILL);
    int status = 0;
    (void)waitpid(child.pid, &status, 0);
    (void)close(child.pipe);
    child.pid = -1;
    if (hung) {
      said[p] = "hung";
    } else if (WIFSIGNALED(status)) {
      said[p] = absl::StrCat("killed by signal ", WTERMSIG(status));
    }
  }
  return said;
}

void KillMeAfter(int64_t us) {
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer = nullptr;
  SL_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  itimerspec when = {};
  when.it_value.tv_sec = us / 1'000'000;
  when.it_value.tv_nsec = us % 1'000'000 * 1000 + 1;
  SL_CHECK(timer_settime(timer, 0, &when, nullptr) == 0);
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  SL_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  SL_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  (void)close(fd);
  return ntohs(address.sin_port);
}

}  // namespace stringline
