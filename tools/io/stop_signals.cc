#include "tools/io/stop_signals.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

struct NamedSignal {
  int number;
  const char* name;
};
// C libraries have names of signals since glibc 2.32.
constexpr NamedSignal kSignals[] = {
    {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},   {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL"},
    {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},
    {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
    {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
};

}  // namespace

bool IsIgnored(int number) {
  struct sigaction action = {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

IgnoredSignal::IgnoredSignal(int number) : number_(number) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(number, &ignore, &before_);
}

IgnoredSignal::~IgnoredSignal() { sigaction(number_, &before_, nullptr); }

StopSignals::StopSignals(const WaitedSignals& signals) {
  sigemptyset(&waited_for_);
  sigemptyset(&wishes_);
  for (const int stop : signals.stops) {
    if (IsIgnored(stop)) continue;
    sigaddset(&waited_for_, stop);
    wakes_watcher_ = stop;
  }
  if (signals.wish != 0 && !IsIgnored(signals.wish)) {
    wish_ = signals.wish;
    sigaddset(&waited_for_, wish_);
    sigaddset(&wishes_, wish_);
    if (wakes_watcher_ == 0) wakes_watcher_ = wish_;
  }
  pthread_sigmask(SIG_BLOCK, &waited_for_, &mask_before_);
  if (wakes_watcher_ == 0) return;
  if (!StartThreads(
           1, [this] { Watch(); }, &watcher_)
           .ok()) {
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
}

StopSignals::~StopSignals() { (void)End(); }

// A signal of the process and the one that wakes the watcher may come at the same time. The watcher
// takes either first: its own is recognised (Watch), and the process's is taken here if it is left.
int StopSignals::End() {
  if (watcher_.empty()) return came_;
  Join();
  const timespec at_once = {};
  while (wish_ != 0 && sigtimedwait(&wishes_, nullptr, &at_once) > 0) wished_ = true;
  if (begun_ && came_ == 0) came_ = std::max(0, sigtimedwait(&waited_for_, nullptr, &at_once));
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  return came_;
}

void StopSignals::Join() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    // Wakes the watcher, which waits for a first signal, or after one for the end.
    if (watching_) pthread_kill(watcher_[0].native_handle(), wakes_watcher_);
  }
  ended_ = true;
  ended_.notify_one();
  watcher_[0].join();
  watcher_.clear();
}

void StopSignals::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  begun_ = true;
}

void StopSignals::Watch() {
  siginfo_t signal;
  for (;;) {
    const int number = sigwaitinfo(&waited_for_, &signal);
    if (number < 0) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    // Join's, from this process. (The C library hides that it was sent to this thread alone.)
    if (ending_ && signal.si_pid == getpid()) return;
    if (number == wish_) {
      wished_ = true;
      continue;
    }
    watching_ = false;
    if (begun_) came_ = number;
    if (ending_ && begun_) return;
    // The next signal comes to this thread, with its usual effect on a process; wishes stay away.
    sigset_t stops = waited_for_;
    if (wish_ != 0) sigdelset(&stops, wish_);
    pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
    if (!begun_) raise(number);
    break;
  }
  ended_.wait(false);
}

std::string NameOfSignal(int number) {
  for (const NamedSignal& signal : kSignals) {
    if (signal.number == number) return signal.name;
  }
  return absl::StrCat("signal ", number);
}

}  // namespace stringline
