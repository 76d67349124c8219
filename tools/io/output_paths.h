// The files that a command line writes; each must differ from its other outputs and its inputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/io/flags.h"

namespace stringline {

// The options that name output files, with these files; "" for options not given.
std::vector<std::pair<const char*, const std::string*>> OutputsOf(const Flags& flags);

// True if an output is standard output.
bool WritesToStandardOutput(const Flags& flags);

// InvalidArgument naming the option and the file: a file already read or written, a second output
// on standard output, or an output there beside the object of --json.
absl::Status CheckOutputPaths(const Flags& flags);

}  // namespace stringline
