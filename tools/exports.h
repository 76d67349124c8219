// Pictures and traces of steps as files: what `show` and `compare` write when asked to.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "tools/flags.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/view/shown_part.h"

namespace stringline {

// Why --lanes has nothing to draw.
inline constexpr char kNoLanes[] =
    "--lanes: nothing but computations takes time; give costs for messages (p2p, message with "
    "bandwidth), collectives (unshard, reduce) or the parts of a computation (F.attn, F.dispatch, "
    "…; 'stringline sim --help' lists them), or a timeline that has them";

// Files that grow with the step: what one of its events takes at least.
struct LargeFile {
  const char* option;
  size_t least_bytes_per_event;
};
inline constexpr LargeFile kLargeFiles[] = {{"--html", 11}, {"--perfetto", 90}, {"--chrome", 140}};

// Writes what --svg, --picture, --html, --perfetto and --chrome ask for. True if there was
// anything. Errors: a file that cannot be written; a recorded timeline that no plan performs; a
// page or a trace of more than 100 MB without --force.
absl::StatusOr<bool> WriteExports(const Flags& flags, const ShownPart& part,
                                  const std::vector<Session>& steps, const Output& output);

}  // namespace stringline
