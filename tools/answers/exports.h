// Pictures and traces of steps as files.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "schedlang/ask/session.h"
#include "tools/io/output.h"
#include "tools/io/picture_options.h"
#include "tools/view/shown_part.h"

namespace stringline {

// Why lanes have nothing to draw.
inline constexpr char kNoLanes[] =
    "`lanes`: nothing but computations takes time; give costs for messages (p2p, message with "
    "bandwidth), collectives (unshard, reduce), copies (D, U), the schedule's own copies and "
    "network actions, or the parts of a computation (F.attn, F.dispatch, …; "
    "'stringline sim --help' lists them), or a timeline that has them";

// Files that grow with the step: the least bytes of an event.
struct LargeFile {
  const char* field;
  size_t least_bytes_per_event;
};
inline constexpr LargeFile kLargeFiles[] = {{"html", 11}, {"perfetto", 90}, {"chrome", 140}};

// The part of the steps in a picture. Errors: invalid ranges, and ranges beyond a step.
absl::StatusOr<ShownPart> ShownPartOf(const PictureQuestion& asked,
                                      const std::vector<Session>& steps);

// Writes the files that are asked for: pictures, a page, traces. True if any was.
// Errors: a file that cannot be written; a recorded timeline that no plan performs; a page or a
// trace of more than 100 MB without `force`.
absl::StatusOr<bool> WriteExports(const PictureQuestion& asked, const ShownPart& part,
                                  const std::vector<Session>& steps, const Output& output);

}  // namespace stringline
