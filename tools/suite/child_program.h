// A program that runs beside this one until it ends, or until it is not wanted any more.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

struct EndedProgram {
  int status = 0;        // its exit status, or 128 and the number of the signal that ended it
  std::string out, err;  // what it wrote
};

// Starts words[0] with the words as its arguments, and waits for its end. The program and all that
// it has started are killed when `stop` says so (it is asked several times a second) or
// `most_seconds` have passed, and if this process dies; what it has left running dies with it.
//
// Cancelled: stopped; DeadlineExceeded: it took longer; ResourceExhausted: it could not be started.
absl::StatusOr<EndedProgram> RunProgram(const std::vector<std::string>& words, int most_seconds,
                                        const std::function<bool()>& stop);

}  // namespace stringline
