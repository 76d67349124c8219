// A program that runs beside this program until it ends or is stopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

struct EndedProgram {
  int status = 0;        // exit status, or 128 + the ending signal
  std::string out, err;  // standard output and standard error
};

// Starts words[0] with the words as its arguments, and waits for its end. The program and all of
// its descendants are killed when `stop` returns true (called several times a second), when
// `most_seconds` have passed, or when this process dies; descendants that outlive the program are
// killed, too.
//
// Cancelled: stopped; DeadlineExceeded: the program took longer; ResourceExhausted: the system does
// not start the program.
absl::StatusOr<EndedProgram> RunProgram(const std::vector<std::string>& words, int most_seconds,
                                        const std::function<bool()>& stop);

}  // namespace stringline
