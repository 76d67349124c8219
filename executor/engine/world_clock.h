// The offset of this process's clock from process 0's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "executor/engine/world.h"

namespace stringline {

struct ClockOffset {
  int64_t ahead_ns = 0;        // this process's clock minus process 0's
  int64_t at_most_off_ns = 0;  // bound of the error
};

// The running kernel's unique boot name, or "".
std::string KernelName();

// All processes call it together. `now_ns` reads the clock; processes on the same kernel share a
// clock. Otherwise some exchanges bound the offset: sending precedes arrival.
absl::StatusOr<ClockOffset> FindClockOffset(World* world, const std::string& kernel,
                                            int64_t (*now_ns)(const void* self), const void* self);

}  // namespace stringline
