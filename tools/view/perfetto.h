// A timeline as a native Perfetto trace: TrackEvent packets, to be opened at ui.perfetto.dev.
//
// A process per rank, with a named track per lane (trace_lanes.h), counters for memory and
// microbatches in flight, a flow for every message from its maker to its receive, and on every
// slice the stage, microbatch and source line as annotations; on a computation that waited, also
// the cause. Two steps stand in one trace as sibling processes. (Field numbers: Perfetto's public
// trace_packet.proto, track_descriptor.proto, track_event.proto and debug_annotation.proto.)
#pragma once

#include <string>

#include "absl/types/span.h"
#include "tools/view/traced.h"

namespace stringline {

// The bytes of a `.pftrace` file.
std::string WritePerfetto(absl::Span<const TracedStep> steps);

}  // namespace stringline
