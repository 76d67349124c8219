// How far this process's clock is ahead of that of process 0.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "executor/world.h"

namespace stringline {

struct ClockOffset {
  int64_t ahead_ns = 0;        // this clock - that of process 0
  int64_t at_most_off_ns = 0;  // how wrong that may be
};

// The running kernel's, which no other has, or "".
std::string KernelName();

// All processes call it together. `now_ns` reads the clock; if all have the same kernel they have
// the same one. Otherwise some exchanges tell: what was sent was sent before it came.
absl::StatusOr<ClockOffset> FindClockOffset(World* world, const std::string& kernel,
                                            int64_t (*now_ns)(const void* self), const void* self);

}  // namespace stringline
