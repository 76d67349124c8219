#include "tools/io/stop_signals.h"

#include "schedlang/base/threads.h"

namespace stringline {
namespace {

struct StopSignal {
  int number;
  const char* name;
};
constexpr StopSignal kStopSignals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}};

bool IsIgnored(int number) {
  struct sigaction action = {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

IgnoredSignal::IgnoredSignal(int number) : number_(number) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(number, &ignore, &before_);
}

IgnoredSignal::~IgnoredSignal() { sigaction(number_, &before_, nullptr); }

StopSignals::StopSignals() {
  sigemptyset(&waited_for_);
  for (const StopSignal& stop : kStopSignals) {
    if (IsIgnored(stop.number)) continue;
    sigaddset(&waited_for_, stop.number);
    wakes_watcher_ = stop.number;
  }
  pthread_sigmask(SIG_BLOCK, &waited_for_, &mask_before_);
  if (wakes_watcher_ == 0) return;
  if (!StartThreads(
           1, [this] { Watch(); }, &watcher_)
           .ok()) {
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (!watcher_.empty()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
      // Wakes the watcher, which waits for a first signal, or after one for the end.
      if (watching_) pthread_kill(watcher_[0].native_handle(), wakes_watcher_);
    }
    ended_ = true;
    ended_.notify_one();
    watcher_[0].join();
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void StopSignals::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  begun_ = true;
}

void StopSignals::Watch() {
  int number = 0;
  // A signal to this thread alone: the destructor's.
  if (sigwait(&waited_for_, &number) != 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) return;
    watching_ = false;
    if (begun_) came_ = number;
    // The next signal comes to this thread, with its usual effect on a process.
    pthread_sigmask(SIG_UNBLOCK, &waited_for_, nullptr);
    if (!begun_) raise(number);
  }
  ended_.wait(false);
}

const char* NameOfSignal(int signal) {
  for (const StopSignal& stop : kStopSignals) {
    if (stop.number == signal) return stop.name;
  }
  return "a signal";
}

}  // namespace stringline
