// Which files a command line writes, and that none of them is one that it reads, or another one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags.h"

namespace stringline {

// The options that name a file to write, with their files; those not given are "".
std::vector<std::pair<const char*, const std::string*>> OutputsOf(const Flags& flags);

// Whether one of them is standard output.
bool WritesToStandardOutput(const Flags& flags);

// InvalidArgument naming the option and the file: one that is read or written already, a second
// one to standard output, or one beside the object of --json.
absl::Status CheckOutputPaths(const Flags& flags);

}  // namespace stringline
