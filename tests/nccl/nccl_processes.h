// Processes with a stand-in GPU and a stand-in NCCL each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/nccl/nccl_groups.h"
#include "executor/processes/tcp_world.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/status_text.h"
#include "tools/gpu/processes.h"

namespace stringline {

// How long a test lets others be away.
struct NcclRun {
  int processes = 2;
  // Of the order of work on the stand-in, in process p that plus p. An odd one: calls start in the
  // order in which they were made (nccl_standin.h).
  unsigned seed = 1;
  NcclSettings settings;
  int64_t exchange_ms = 60'000;
};

// Settings of the run's p-th process, whose world is at that port.
TcpWorldSettings WorldSettings(const NcclRun& run, int process, int port);

// Forks the processes, each of which joins the world and runs the function; what they say, or the
// status that joining ended with, or "failed" where a gtest expectation did not hold.
std::vector<std::string> RunNccl(const NcclRun& run,
                                 const std::function<std::string(World* world)>& body);

// The GPU of this process and the groups on it, which all make.
absl::StatusOr<GroupMachine> NewMachine(World* world, const NcclSettings& settings);

}  // namespace stringline
