// Some ranks of a run on threads of this process, whose messages and hosts' exchanges with the
// other processes go over MPI.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/backend.h"
#include "executor/processes/identity.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/wires.h"

namespace stringline {

// OK if MPI knows this process, and Open MPI can be loaded; FailedPrecondition or Unavailable with
// the reason. MPI is not begun.
absl::Status CanUseMpi(const Identity& identity);

// Joins the other processes, which all do so.
// Errors: those of MpiWorld::Join; ResourceExhausted when the system does not start so many
// threads, which the others are told.
absl::StatusOr<std::unique_ptr<Backend>> MakeMpiBackend(const TcpWorldSettings& world,
                                                        const WireSettings& wires, int threads);

}  // namespace stringline
