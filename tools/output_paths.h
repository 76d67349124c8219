// Which files a command line writes, and that none of them is one that it reads, or another one.
#pragma once

#include "absl/status/status.h"
#include "tools/flags.h"

namespace stringline {

// InvalidArgument naming the option and the file.
absl::Status CheckOutputPaths(const Flags& flags);

}  // namespace stringline
