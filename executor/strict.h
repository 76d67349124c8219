// Executes an order with stage programs that do nothing, under the strictest rules: does a step of
// this plan end, with messages that share communicators as the layout says?
#pragma once

#include "absl/status/status.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

// OK exactly when every action ran with its needs given, every message met its own receive, and the
// step is whole (effects.h). Otherwise FailedPrecondition (issued before its needs, or not whole),
// Aborted (deadlock) or InvalidArgument (mismatched messages). Runs on the calling thread alone.
absl::Status RunStrict(const Plan& lowered, CommLayout layout = CommLayout::kEdge);

}  // namespace stringline
