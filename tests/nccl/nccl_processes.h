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

// The processes and their deadlines.
struct NcclRun {
  int processes = 2;
  // Seeds the stand-in's random order: process p uses seed + p. With an odd seed, calls start in
  // the order in which they were made (nccl_standin.h).
  unsigned seed = 1;
  NcclSettings settings;
  int64_t exchange_ms = 60'000;
};

// Settings of the run's p-th process, whose world is at `port`.
TcpWorldSettings WorldSettings(const NcclRun& run, int process, int port);

// Forks the processes, each of which joins the world and runs `body`; returns their texts, or the
// status of a failed join, or "failed" if a gtest expectation did not hold.
std::vector<std::string> RunNccl(const NcclRun& run,
                                 const std::function<std::string(World* world)>& body);

// The GPU of this process and its groups, which all processes make.
absl::StatusOr<GroupMachine> NewMachine(World* world, const NcclSettings& settings);

}  // namespace stringline
