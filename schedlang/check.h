// Proves a plan before it runs, or says what is wrong with it and where.
#pragma once

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"

namespace stringline {

// One thing that must hold. `find` adds its findings. The rules run in the order of the table and a
// later rule may rely on the earlier ones: the first rule with findings is the last one that runs.
struct Rule {
  const char* name;
  const char* says;
  Code code;
  void (*find)(const Plan& lowered, Diagnostics* diagnostics);
};
absl::Span<const Rule> Rules();

// Checks a lowered plan by every rule. True when there is nothing to say.
//
// The model is NCCL's at its strictest: a send waits for its receive, messages of a channel match
// in order, and every (sending rank, receiving rank) pair has a communicator and a stream of its
// own (the layout `edge`). Computation runs on the rank's compute stream in the order of the plan.
bool Check(const Plan& lowered, Diagnostics* diagnostics);

}  // namespace stringline
