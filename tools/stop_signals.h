// Ctrl-C and `kill` as a wish that something ends in good order.
#pragma once

#include <signal.h>

#include <array>

namespace stringline {

// While one lives, the first SIGINT or SIGTERM is only noted; a second one ends the process at
// once, as it would without. A signal that was ignored before stays so, and a write past the limit
// on file sizes (SIGXFSZ) is an error and not the end. Only one lives at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // everything is as before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came; 0: none so far.
  int came() const;

 private:
  std::array<struct sigaction, 3> before_ = {};
};

// "SIGINT"
const char* NameOfSignal(int signal);

}  // namespace stringline
