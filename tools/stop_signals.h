// What signals do while something runs: Ctrl-C and `kill` as a wish that it ends in good order.
#pragma once

#include <signal.h>

#include <array>

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

// While one lives, the first SIGINT or SIGTERM is only noted; a second one ends the process at
// once, as it would without. One that was ignored before stays so. Only one lives at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // everything is as before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came; 0: none so far.
  int came() const;

 private:
  std::array<struct sigaction, 2> before_ = {};
};

// "SIGINT"
const char* NameOfSignal(int signal);

}  // namespace stringline
