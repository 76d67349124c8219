// A run whose processes are all on this host, started from one command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// The ends of the processes of a run.
struct LocalRun {
  int status = 0;  // the first process's exit status, or another's if the first is 0
  struct Lost {
    int process = 0;
    int signal = 0;  // the ending signal
  };
  std::vector<Lost> lost;  // in the order in which they ended; first those that nobody here killed
  int killed_late = 0;     // of these, the last ones: still running long after another's error
  bool severed = false;    // a process ended with kLost, and none with an error of the run itself
  bool told = false;       // a process has told an error
  bool stopped = false;    // SIGINT, SIGTERM or SIGHUP came
  bool healed = false;     // processes were lost, and the others went on to the end
  std::string output;      // what they print, if held
  // True if processes were lost, and not by an error of the run itself.
  bool MayStartAgain() const;
};

// The secret of a run that is started from here: STRINGLINE_SECRET, or a new one.
std::string SecretForProcesses();

// "process 1 was lost (SIGKILL)"; "the processes have lost each other".
std::string PrintLost(const LocalRun& run);

struct LocalRunSettings {
  bool holds_output = false;
  bool heals = false;
  bool returns = false;  // processes that a run that heals has lost come back
  // The time that a process has to end after another has reached the run's end, where the others
  // may have gone on without one that hangs.
  int64_t end_ns = 60'000'000'000;
};

// Starts this program `count` times, with `arguments` and the number of each process, and waits for
// all. They get the run's secret in their environment. The output of the first process is printed;
// of the others only an error, on either stream, that the first process did not live to print.
// SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all; if this process dies, they
// die. ResourceExhausted: the system does not start so many processes.
//
// When a process has ended in an error, any process that is still running ten seconds later is
// killed: the error can no longer reach it. Where the run `heals`, others go on when a signal has
// ended a process, any process may print, and the status is that of the last one to end, of those
// that did not leave (kLeft) and were not killed here; one that is still running `end_ns` after
// another has reached the end is killed. Where processes come back, one that a signal ended is
// started again with --return, a few times. With `holds_output` standard output is kept until all
// have ended.
absl::StatusOr<LocalRun> RunLocalProcesses(int count, const std::vector<std::string>& arguments,
                                           const std::string& secret,
                                           const LocalRunSettings& settings);

}  // namespace stringline
