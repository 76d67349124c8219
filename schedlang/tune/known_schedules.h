// The library's schedules as a planner sees them: where their stages live, and which of them are
// not tried, with the reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline::tune {

enum class Place : uint8_t { kLine, kLoop, kV, kWave, kTwoLines, kTwoVs };

struct KnownSchedule {
  const char* name = "";
  Place place = Place::kLine;
  const char* turns = "";    // its parameter for the stages of a rank; "": it has none
  const char* why_not = "";  // the reason why it is not tried; "": it is
  int slices = 1;            // of a microbatch, by its default; 0: as many as ranks
  bool halves = false;       // it performs I and W
  bool pairs = false;        // it lets a forward and a backward overlap
};

// Every schedule of the library, by name.
absl::Span<const KnownSchedule> KnownSchedules();
// The index of the schedule of this name; -1 for none.
int IndexOfSchedule(absl::string_view name);

// The numbers of stages of a rank to try for a model of so many layers: of those with the same
// largest stage the fewest.
std::vector<int64_t> TurnsToTry(const KnownSchedule& schedule, int64_t ranks, int64_t layers);

// The stages of the schedule on so many ranks, as a plan without actions; `turns` of a rank and a
// pipe.
Plan StagesOnly(const KnownSchedule& schedule, int64_t ranks, int64_t microbatches, int64_t turns);

}  // namespace stringline::tune
