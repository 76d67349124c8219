// The faults that torch's runtime has with a schedule that is otherwise right.
//
// Torch checks little of this when it loads a file: some faults stop a run in the middle, others
// only make gradients wrong. Findings have the code kTorchRuntime.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/torch/comm_stream.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {

// For both forms: letters with another meaning in torch today, and FindLossOrder. For the comms
// form also rules beyond Check's:
//   - every stage is unsharded, and not resharded unused;
//   - gradients are reduced;
//   - with waits: one for every send and reduction, behind it, and one reduction at a time.
// `file.plan` passes Check.
void FindTorchFaults(const TorchFile& file, Diagnostics* diagnostics);

// The last stage must run its microbatches in numerical order. Torch appends each loss to a list
// and looks up microbatch m's at place m, so in any other order it stops, or computes wrong
// gradients.
void FindLossOrder(const Plan& plan, Diagnostics* diagnostics);

// A cycle of waits, found by a simulation of torch's runtime (torch/comm_stream.h); nothing for an
// empty cycle.
void AddCycle(const Plan& plan, const std::vector<Blocked>& cycle, CommLayout layout,
              Diagnostics* diagnostics);

}  // namespace stringline
