// The schedules of schedules/, embedded in the program.
#pragma once

#include "absl/types/span.h"

namespace stringline {

struct LibrarySchedule {
  const char* name;  // "zb_v"
  const char* text;
};
// By name.
absl::Span<const LibrarySchedule> ScheduleLibrary();

}  // namespace stringline
