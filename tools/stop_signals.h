// What signals do while something runs: Ctrl-C and `kill` as a wish that it ends in good order.
#pragma once

#include <signal.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace stringline {

// A signal that is ignored while one of these lives.
class IgnoredSignal {
 public:
  explicit IgnoredSignal(int number);
  ~IgnoredSignal();  // as before
  IgnoredSignal(const IgnoredSignal&) = delete;
  IgnoredSignal& operator=(const IgnoredSignal&) = delete;

 private:
  const int number_;
  struct sigaction before_ = {};
};

// From Begin on, the first SIGINT or SIGTERM is only noted. Before it, and from the second one on,
// they do what they do without this object. Those that are ignored stay so.
//
// No handler ever runs: a thread that multiplies matrices may have its stack pointer anywhere, and
// what the system would push there for a handler spoils the heap. Instead the signals are blocked
// in the thread that makes the object, and in all threads that it starts from then on, and a thread
// of the object's own waits for them. If that one cannot be started, nothing changes.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void Begin();
  // The signal that was noted; 0: none so far.
  int came() const { return came_; }

 private:
  void Watch();

  sigset_t waited_for_;
  int wakes_watcher_ = 0;  // one of them; 0: there are none
  sigset_t mask_before_;
  std::mutex mutex_;  // guards what follows
  bool begun_ = false;
  bool ending_ = false;
  bool watching_ = true;  // no signal has come yet
  std::atomic<int> came_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::thread> watcher_;
};

// "SIGINT"
const char* NameOfSignal(int signal);

}  // namespace stringline
