// A run whose processes are all on this host, started from one command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// How the processes of a run ended.
struct LocalRun {
  int status = 0;  // the first one's exit status, or another's where that is 0
  struct Lost {
    int process = 0;
    int signal = 0;  // that ended it
  };
  std::vector<Lost> lost;
  bool stopped = false;  // SIGINT or SIGTERM came
  std::string output;    // of the first one, where it was held
};

// Starts this program `count` times, with `arguments` and what says which process each is, and
// waits for all. What the first one prints is printed; of the others only an error, where the first
// one did not live to tell it. SIGINT and SIGTERM are passed on to all; if this process dies, they
// die. ResourceExhausted: the system does not start so many.
//
// When one has ended in an error, and another has not ten seconds later, that one is killed: it
// cannot be told any more. With `holds_output` what the first one prints is kept until all have
// ended.
absl::StatusOr<LocalRun> RunLocalProcesses(int count, const std::vector<std::string>& arguments,
                                           bool holds_output);

}  // namespace stringline
