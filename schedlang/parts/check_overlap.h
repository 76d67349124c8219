// Whether the order of parts that an `overlap` block gives can run.
#pragma once

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"

namespace stringline {

// Adds a finding, and returns false, if the block names one action only or one twice; a part that
// is unknown, not of the group, on the wrong lane or named before; if a part is missing; if the two
// lanes would wait for each other forever; or if one of `others` is for the same actions.
bool CheckOverlap(const Overlap& overlap, absl::Span<const Overlap> others,
                  Diagnostics* diagnostics);

}  // namespace stringline
