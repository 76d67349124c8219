// Signals during a run: Ctrl-C and `kill` ask the run to end in good order.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stringline {

// A signal that is ignored while such an object lives.
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

// Blocks a signal in this thread, and in threads and programs that it starts from then on, or ends
// that. A blocked signal waits; an ignored one stays ignored.
void SetBlocked(int number, bool blocked);

// A signal that asks for something at once.
struct SignalCall {
  enum class From : uint8_t { kSignal, kQueued, kHere };
  From from = From::kSignal;  // kill; sigqueue of another process; StopSignals::Call
  int value = 0;              // of sigqueue, and of Call
};

// The signals that an object waits for.
struct WaitedSignals {
  std::vector<int> stops = {SIGINT, SIGTERM};
  int wish = 0;  // a signal that asks for something beside the run, any number of times; 0: none
  // A signal for which `called` runs at once on the object's own thread, also behind the signal
  // that stops; 0: none.
  int call = 0;
  std::function<void(const SignalCall&)> called;
};

// From Begin on, the first signal that stops is only noted. Signals before Begin, and from the
// second on, have the same effect as without this object. A wish is noted at any time, and has no
// effect of its own until the object ends. Ignored signals stay ignored.
//
// No handler ever runs: a thread that multiplies matrices may have its stack pointer anywhere, and
// a handler's frame, pushed there by the system, would spoil the heap. Instead the signals are
// blocked in the thread that makes the object, and in all threads started from then on, and a
// thread of the object's own waits for them. If this thread cannot be started, nothing changes.
class StopSignals {
 public:
  explicit StopSignals(const WaitedSignals& signals = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void Begin();
  // The signal noted; 0: none so far.
  int came() const { return came_; }
  // True once for one or several wishes that came since the last call.
  bool TakeWish() { return wished_.exchange(false); }
  // Runs `called` on the object's own thread, soon. Does not wait. Not after End.
  void Call(int value);
  // Ends the watch, and returns the signal that came until now, even if no thread has noticed it
  // yet. Later signals have the same effect as without this object.
  int End();

 private:
  void Watch();
  bool Note(const siginfo_t& signal);
  void Join();

  sigset_t waited_for_;  // with the wish
  sigset_t wishes_;
  int wish_ = 0;
  int call_ = 0;
  const std::function<void(const SignalCall&)> called_;
  int wakes_watcher_ = 0;  // a signal among them; 0: none
  sigset_t mask_before_;
  std::mutex mutex_;  // guards the members below
  bool begun_ = false;
  bool ending_ = false;
  bool watching_ = true;  // no signal has come yet
  std::atomic<int> came_{0};
  std::atomic<bool> wished_{false};
  std::atomic<bool> ended_{false};
  std::vector<std::thread> watcher_;
};

// "SIGINT"; "signal 34".
std::string NameOfSignal(int number);
// True for a signal that this process was told to ignore, as by nohup.
bool IsIgnored(int number);

}  // namespace stringline
