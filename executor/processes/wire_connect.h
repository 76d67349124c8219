// The connections of a run's processes: every process listens on a port of its own, on the address
// by which the others reach it, and tells all which; each connects to those of its peers before it,
// and accepts those after it. Both ends prove the run's secret (proof.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "executor/engine/world.h"
#include "executor/processes/process_names.h"
#include "executor/processes/secret.h"

namespace stringline {

struct WireProof {
  Secret secret;
  std::string run;  // no proof holds in another run
};

// The missing connections of a process.
struct WireMissing {
  // By process: the other end misses it too. Called once the ranks and hosts of all are known.
  absl::FunctionRef<std::vector<bool>()> all;
  // One has been made; the receiver owns the socket.
  absl::FunctionRef<void(int process, int fd)> open;
};

// Opens the connections to these processes, and learns the ranks and hosts of all. All call it.
// Errors: those of World::Exchange; DeadlineExceeded, and then *late lists who did not connect
// within `join_ms`, or Unavailable for a process that cannot be reached.
absl::Status ConnectProcesses(World* world, const WireProof& proof, int64_t join_ms,
                              ProcessNames* names, const WireMissing& missing,
                              std::vector<int>* late);

}  // namespace stringline
