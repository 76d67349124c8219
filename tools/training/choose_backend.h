// The choice of the backend for a run's ranks.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/engine/backend.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"
#include "executor/run/run_config.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Null: the CPU's backend, which a trainer makes itself. In a run of several processes, each
// process has a rank and a GPU; the processes meet here, and compare the agreement and their
// devices. Unavailable where the run asks for a GPU, or needs a GPU, and this build or this machine
// has none; the message tells which. InvalidArgument where the machine lacks the GPUs that the run
// names.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const RunConfig& config, const Plan& plan,
                                                     const Identity& identity,
                                                     const ConfigLines& agreement = {});

// Called instead when this process cannot run: tells the other processes, if any.
void TellOthers(const RunConfig& config, const Identity& identity, const absl::Status& trouble);

}  // namespace stringline
