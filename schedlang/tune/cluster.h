// The machines of a planner's question: CLUSTER.yaml, and the model that is to run on them.
//
//   hardware: h100        # a known name, or a hardware file, its path seen from this file
//   gpus: 1024
//   reserve: 6%           # of a GPU's memory, for what is not counted: CUDA's context, the
//                         # buffers of NCCL and of libraries, fragmentation; 6 % if not given
//   efficiency: 0.5       # further keys replace those of the hardware (costs.h)
//   node: {ranks: 8, bandwidth: 400GB/s}
//
// MODEL.yaml is a cost file with `model`, `precision` and further keys that hold for every choice.
// Keys that a choice sets (mesh, data, sharding, recompute), or that only measured costs have, are
// refused: --pin fixes what is given.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "schedlang/costs/costs.h"

namespace stringline::tune {

struct Cluster {
  std::string name;  // of the hardware: "h100", or the file's path
  int64_t gpus = 0;
  int64_t reserve = 60'000;  // millionths
  // The hardware with the cluster's own keys in place of its, as a hardware file. Its path is the
  // cluster file's, so errors name that.
  Source machine = Source("", "");
};

// Errors name file and key; an unknown name is answered with the known ones and the keys of a
// hardware file.
absl::StatusOr<Cluster> ReadCluster(const Source& source);

// The costs of the model on the cluster's GPUs, without any choice. Errors: keys that a choice
// sets, costs of computations, and what ReadCosts refuses.
absl::StatusOr<CostSpec> ReadModel(const Source& source, const Cluster& cluster);

}  // namespace stringline::tune
