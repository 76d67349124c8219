// The hardware files of costs/hardware, embedded in the program.
#pragma once

#include "absl/types/span.h"

namespace stringline {

struct KnownHardware {
  const char* name;  // "h100"
  const char* text;
};
// By name.
absl::Span<const KnownHardware> HardwareLibrary();

}  // namespace stringline
