// Pictures and traces of steps as files: what `show` and `compare` write when asked to.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "tools/flags.h"
#include "tools/session.h"

namespace stringline {

// Writes what --svg, --html, --perfetto and --chrome ask for. True if there was anything. Errors: a
// file that cannot be written; a recorded timeline that no plan performs.
absl::StatusOr<bool> WriteExports(const Flags& flags, const std::vector<Session>& steps);

}  // namespace stringline
