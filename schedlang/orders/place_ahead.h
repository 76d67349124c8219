// `then recompute by e` and `then offload by e`: R, D and U are placed ahead of the B or I that
// needs them. Groups of actions count as one. `ahead`, by rank, is not negative. `stages`: by
// stage, not 0 for those that take part; empty: all do.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// These stages recompute, beside those that the plan says. The R of a microbatch comes right before
// the action of its rank that stands ahead[rank] actions before its B or I, but behind its F. The
// plan has no R. An R has the place and the iteration of its B or I.
Plan PlaceRecomputes(const Plan& plan, const std::vector<int64_t>& ahead,
                     absl::Span<const int64_t> stages = {});

// Values that ranks keep long go to the host's memory in between. The D of a microbatch comes
// behind the action after its F, so that the copy runs beside that action; its U comes right before
// the action that stands ahead[rank] actions before its R, B or I. A microbatch without an action
// between its D and its U stays on the device. The plan has no copies. A copy has the place and the
// iteration of its F.
Plan PlaceCopies(const Plan& plan, const std::vector<int64_t>& ahead,
                 absl::Span<const int64_t> stages = {});

}  // namespace stringline
