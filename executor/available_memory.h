// How much memory this process can still take, asked before it is taken: Linux gives out more than
// there is, and ends the process when it is touched.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"

namespace stringline {

struct AvailableMemory {
  int64_t bytes = std::numeric_limits<int64_t>::max();  // where nothing is known
  std::string limit;  // what says so: "MemAvailable of /proc/meminfo"
};

// The text of a file of the system, "" for one that is not there.
using SystemFiles = std::function<std::string(const std::string& path)>;

// The least of
//   the machine      MemAvailable of /proc/meminfo: free, or given back without loss; swap is not
//                    counted
//   its cgroups      memory.max - memory.current, of version 1 memory.limit_in_bytes -
//                    memory.usage_in_bytes, of this one and all above it; what holds files that are
//                    on the disk as well counts as free
//   the process      "Max address space" (ulimit -v) - VmSize
AvailableMemory FindAvailableMemory(const SystemFiles& files);
AvailableMemory FindAvailableMemory();  // of this process

// The most memory that this process has held at once; 0 where nobody knows.
int64_t PeakResidentBytes();

// Of a rank of the mesh: what its parameters, gradients, moments, slots, temporaries, tokens and
// losses take by the plan, before anything is taken, and what the device has given for it.
struct RankBytes {
  int64_t planned = 0;
  int64_t allocated = 0;
};

// What a run needs, in bytes; doubles, since absurd models pass 64 bits.
struct NeededMemory {
  double params = 0;       // with gradients and moments
  double activations = 0;  // and messages, temporaries, data
  double graphs = 0;       // the programs themselves
  double all() const { return params + activations + graphs; }
};

// ResourceExhausted with both numbers, and what would help, when it is not there.
absl::Status CheckMemory(const NeededMemory& needed, const AvailableMemory& available);

}  // namespace stringline
