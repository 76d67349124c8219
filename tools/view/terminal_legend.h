// The lines below a picture in the terminal that explain the drawn shapes, and no others; for two
// pictures on one scale, the shapes of both.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "schedlang/plan/timeline.h"
#include "tools/view/lane_rows.h"
#include "tools/view/paint.h"
#include "tools/view/stage_shades.h"

namespace stringline {

// Notes of what pictures drew.
struct TerminalLegend {
  std::set<ActionKind> kinds;
  std::set<LaneKind> lanes;
  std::map<ActionKind, std::string> own;  // names of a schedule's own actions
  // True if a schedule has copies of its own.
  bool CopiesToOthers() const {
    return std::any_of(own.begin(), own.end(), [](const auto& row) { return IsCopy(row.first); });
  }
  ShadeNames shades;
  bool has_numbers = false;      // a cell bears a microbatch
  bool has_slices = false;       // and its slice
  bool has_last_digits = false;  // a cell bears a number's last digit
  bool hides_microbatches = false;
  bool is_flight = false;
};

// `margin` columns to the right.
std::string Print(const TerminalLegend& legend, int margin, Colors colors);

}  // namespace stringline
