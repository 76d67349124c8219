// A timeline in Chrome's JSON trace format, for the older viewers (chrome://tracing, and readers of
// PyTorch's profiles): a process per rank, a thread per lane, flows for messages, counters.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "tools/view/traced.h"

namespace stringline {

std::string WriteChromeTrace(absl::Span<const TracedStep> steps);

}  // namespace stringline
