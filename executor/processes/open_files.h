// The number of files that this process may open: a connection to another process is one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace stringline {

// Raises the limit (RLIMIT_NOFILE) as far as the system allows, and checks that `more` files can be
// opened beside those that are open. ResourceExhausted names `what_for`, the limit, and the number
// that is needed.
absl::Status RaiseOpenFiles(int64_t more, const std::string& what_for);

}  // namespace stringline
