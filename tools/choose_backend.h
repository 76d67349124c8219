// What the ranks of a run run on.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/run_config.h"

namespace stringline {

// Null: the CPU's, which a trainer makes itself. Unavailable where the run file asks for a GPU and
// this build or this machine has none; the message says which.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const RunConfig& config);

}  // namespace stringline
