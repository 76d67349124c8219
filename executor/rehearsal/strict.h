// Executes an order with empty stage programs, under the strictest rules: does a step of this plan
// end, with messages on the layout's communicators?
#pragma once

#include "absl/status/status.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// OK exactly if every action ran with its dependencies met, every message met its own receive, and
// the step is whole (effects.h). Otherwise FailedPrecondition (issued before its dependencies, or
// not whole), Aborted (deadlock) or InvalidArgument (mismatched messages). Runs on the calling
// thread alone.
absl::Status RunStrict(const Plan& lowered, CommLayout layout = CommLayout::kEdge);

}  // namespace stringline
