// The memory that this process can still take. Asked before memory is allocated, since Linux
// overcommits and kills the process only when pages are touched.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"

namespace stringline {

struct AvailableMemory {
  int64_t bytes = std::numeric_limits<int64_t>::max();  // the maximum: no limit is known
  std::string limit;  // the limit's source: "MemAvailable of /proc/meminfo"
};

// The text of a file of the system; "" for a missing file.
using SystemFiles = std::function<std::string(const std::string& path)>;

// The least of
//   the machine      MemAvailable of /proc/meminfo: free, or given back without loss; swap is not
//                    counted
//   its cgroups      memory.max - memory.current, of version 1 memory.limit_in_bytes -
//                    memory.usage_in_bytes, of this one and all above it; pages of files that are
//                    on the disk as well counts as free
//   the process      "Max address space" (ulimit -v) - VmSize
AvailableMemory FindAvailableMemory(const SystemFiles& files);
AvailableMemory FindAvailableMemory();  // for this process

// The peak resident memory of this process; 0 if unknown.
int64_t PeakResidentBytes();

// Bytes of a rank of the mesh: `planned` for parameters, gradients, moments, slots, temporaries,
// tokens and losses, known before any allocation; `allocated` by the device for them.
struct RankBytes {
  int64_t planned = 0;
  int64_t allocated = 0;
};

// The memory that a run needs, in bytes; doubles, since absurd models pass 64 bits.
struct NeededMemory {
  double params = 0;       // with gradients and moments
  double activations = 0;  // and messages, temporaries, data
  double graphs = 0;       // the programs themselves
  double all() const { return params + activations + graphs; }
};

// ResourceExhausted, with both numbers and a remedy, if `available` is less than `needed`.
absl::Status CheckMemory(const NeededMemory& needed, const AvailableMemory& available);

}  // namespace stringline
