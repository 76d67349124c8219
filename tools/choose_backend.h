// What the ranks of a run run on.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/processes/identity.h"
#include "executor/run_config.h"
#include "schedlang/plan.h"

namespace stringline {

// Null: the CPU's, which a trainer makes itself. Where this is one of several processes, each has a
// rank and a GPU; they meet here, and find out whether they run the same. Unavailable where a GPU
// is asked for, or needed, and this build or this machine has none; the message says which.
// InvalidArgument where the machine has not the GPUs that the run wishes.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const RunConfig& config, const Plan& plan,
                                                     const Identity& identity);

// Instead: this process cannot run, which it tells the others, if there are any.
void TellOthers(const Identity& identity, const absl::Status& trouble);

}  // namespace stringline
