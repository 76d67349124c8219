// What torch's runtime takes amiss in a schedule that is otherwise right.
//
// Torch looks at little of this when it loads a file: some of it stops a run in the middle, some of
// it only makes gradients wrong. Findings have the code kTorchRuntime.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/formats/comm_stream.h"
#include "schedlang/formats/torch_csv.h"

namespace stringline {

// Of both forms: letters that torch reads otherwise today, and FindLossOrder. Of the comms form,
// too, what Check does not ask of every plan:
//   - every stage is unsharded, and not resharded unused;
//   - gradients are reduced;
//   - if there are waits: every send and reduction has one, behind it, and one reduction at a time.
// `file.plan` passes Check.
void FindTorchFaults(const TorchFile& file, Diagnostics* diagnostics);

// The last stage runs its microbatches in the order of their numbers. Torch appends each loss to a
// list and looks up microbatch m's at place m, so in any other order it stops, or computes wrong
// gradients.
void FindLossOrder(const Plan& plan, Diagnostics* diagnostics);

// A circle of waits, as a simulation of torch's runtime found it (formats/comm_stream.h); nothing
// for an empty one.
void AddCircle(const Plan& plan, const std::vector<Blocked>& circle, CommLayout layout,
               Diagnostics* diagnostics);

}  // namespace stringline
