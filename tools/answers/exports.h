// Pictures and traces of steps as files, written by options of `show` and `compare`.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "schedlang/ask/session.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"
#include "tools/view/shown_part.h"

namespace stringline {

// Why --lanes has nothing to draw.
inline constexpr char kNoLanes[] =
    "--lanes: nothing but computations takes time; give costs for messages (p2p, message with "
    "bandwidth), collectives (unshard, reduce) or the parts of a computation (F.attn, F.dispatch, "
    "…; 'stringline sim --help' lists them), or a timeline that has them";

// Files that grow with the step: the least bytes of an event.
struct LargeFile {
  const char* option;
  size_t least_bytes_per_event;
};
inline constexpr LargeFile kLargeFiles[] = {{"--html", 11}, {"--perfetto", 90}, {"--chrome", 140}};

// Writes the files of --svg, --picture, --html, --perfetto and --chrome. True if any was given.
// Errors: a file that cannot be written; a recorded timeline that no plan performs; a page or a
// trace of more than 100 MB without --force.
absl::StatusOr<bool> WriteExports(const Flags& flags, const ShownPart& part,
                                  const std::vector<Session>& steps, const Output& output);

}  // namespace stringline
