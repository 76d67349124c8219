// The connections of a run's processes: every process listens on a port of its own, on the address
// by which the others reach it, and tells all which; each connects to the processes before it, and
// accepts those after it. Both ends prove the run's secret (proof.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "executor/engine/world.h"
#include "executor/processes/process_names.h"
#include "executor/processes/secret.h"
#include "executor/processes/wire_connection.h"

namespace stringline {

struct WireProof {
  Secret secret;
  std::string run;  // no proof holds in another run
};

// Opens the connections to all other processes, and learns their ranks and hosts. All call it.
// Errors: those of World::Exchange; DeadlineExceeded, or Unavailable for a process that cannot be
// reached, within `join_ms`.
absl::Status ConnectProcesses(World* world, const WireProof& proof, int64_t join_ms,
                              ProcessNames* names, std::deque<WireConnection>* connections);

}  // namespace stringline
