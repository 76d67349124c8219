// Pictures and traces of steps as files: what `show` and `compare` write when asked to.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "tools/flags.h"
#include "tools/session.h"

namespace stringline {

// Why --lanes has nothing to draw.
inline constexpr char kNoParts[] =
    "--lanes: no parts of its computations are known; give them costs (F.attn, F.dispatch, …; "
    "'stringline sim --help' lists them), or a timeline that has them";

// Writes what --svg, --html, --perfetto and --chrome ask for. True if there was anything. Errors: a
// file that cannot be written; a recorded timeline that no plan performs.
absl::StatusOr<bool> WriteExports(const Flags& flags, const std::vector<Session>& steps);

}  // namespace stringline
