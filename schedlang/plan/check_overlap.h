// Checks that the order of parts in an `overlap` block can run.
#pragma once

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Adds a finding and returns false if the block names only a single action or repeats an action; if
// a part is unknown, not of the group, on the wrong lane, repeated or missing; if the two lanes
// would wait for each other forever; or if another block of `others` covers the same actions.
bool CheckOverlap(const Overlap& overlap, absl::Span<const Overlap> others,
                  Diagnostics* diagnostics);

}  // namespace stringline
