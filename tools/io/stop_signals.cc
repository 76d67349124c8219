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

void SetBlocked(int number, bool blocked) {
  if (IsIgnored(number)) return;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &one, nullptr);
}

StopSignals::StopSignals(const WaitedSignals& signals) : signals_(signals) {
  sigemptyset(&waited_for_);
  sigemptyset(&wishes_);
  for (const int stop : signals.stops) {
    if (IsIgnored(stop)) continue;
    sigaddset(&waited_for_, stop);
    wakes_watcher_ = stop;
  }
  const auto wait_for = [this](int number) {
    if (number == 0 || IsIgnored(number)) return 0;
    sigaddset(&waited_for_, number);
    sigaddset(&wishes_, number);
    wakes_watcher_ = number;  // also behind a signal that stops
    return number;
  };
  signals_.wish = wait_for(signals.wish);
  signals_.call = wait_for(signals.call);
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
  const bool has_wishes = signals_.wish != 0 || signals_.call != 0;
  while (has_wishes) {
    const int number = sigtimedwait(&wishes_, nullptr, &at_once);
    if (number <= 0) break;
    wished_ = wished_ || number == signals_.wish;
  }
  if (begun_ && came_ == 0) came_ = std::max(0, sigtimedwait(&waited_for_, nullptr, &at_once));
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  return came_;
}

void StopSignals::Join() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    // Wakes the watcher, which waits for a signal, or for the end.
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

void StopSignals::Call(int value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (signals_.call == 0 || ending_ || watcher_.empty()) return;
  sigval with = {};
  with.sival_int = value;
  (void)pthread_sigqueue(watcher_[0].native_handle(), signals_.call, with);
}

// Returns false at the end of the watch.
bool StopSignals::Note(const siginfo_t& signal) {
  const int number = signal.si_signo;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Join's, from this process. (The C library hides that it was sent to this thread alone.)
  if (ending_ && signal.si_pid == getpid()) return false;
  if (number == signals_.wish) wished_ = true;
  if (number == signals_.wish || number == signals_.call) return true;
  if (begun_) came_ = number;
  if (ending_ && begun_) {
    watching_ = false;
    return false;
  }
  // The next signal comes to this thread, with its usual effect on a process; wishes stay away.
  sigset_t stops = waited_for_;
  for (const int wish : {signals_.wish, signals_.call}) {
    if (wish != 0) sigdelset(&stops, wish);
  }
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
  if (!begun_) raise(number);
  watching_ = signals_.call != 0;
  return watching_;
}

void StopSignals::Watch() {
  siginfo_t signal;
  const sigset_t* waited_for = &waited_for_;
  for (;;) {
    const int number = sigwaitinfo(waited_for, &signal);
    if (number < 0) continue;
    if (!Note(signal)) break;
    if (number == signals_.call) {
      using From = SignalCall::From;
      const bool queued = signal.si_code == SI_QUEUE;
      const bool here = queued && signal.si_pid == getpid();
      signals_.called({here     ? From::kHere
                       : queued ? From::kQueued
                                : From::kSignal,
                       queued ? signal.si_value.sival_int : 0});
    } else if (number != signals_.wish) {
      waited_for = &wishes_;  // a signal has come that stops
    }
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
