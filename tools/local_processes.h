// A run whose processes are all on this host, started from one command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// Starts this program `count` times, with `arguments` and what says which process each is, and
// waits for all. What the first one prints is printed; of the others only an error, where the first
// one did not live to tell it. SIGINT and SIGTERM are passed on to all; if this process dies, they
// die. Returns the first one's exit status, or another's where that is 0.
// ResourceExhausted: the system does not start so many.
absl::StatusOr<int> RunLocalProcesses(int count, const std::vector<std::string>& arguments);

// Without "--processes N".
std::vector<std::string> WithoutProcesses(const std::vector<std::string>& arguments);

}  // namespace stringline
