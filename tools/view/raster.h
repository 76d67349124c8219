// A timeline on a grid: which action has most of each slice of time, per rank.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/timeline.h"

namespace stringline {

struct Raster {
  int columns = 0;            // the terminal's
  int slices_per_column = 1;  // 2 where half columns can be drawn
  int64_t end_ns = 0;         // the time at the right edge
  bool exact = false;         // every start and end lies on a slice's edge
  // rows[rank][slice]: the index of an event (a group's first part), or -1 where the rank idles.
  std::vector<std::vector<int>> rows;

  int slices() const { return columns * slices_per_column; }
};

// Lays the timeline out on at most `columns` columns. If all times are multiples of a step at least
// a column wide, every step gets the same whole number of columns (at most 8 for the shortest
// action), unless this would leave two fifths of the columns empty; otherwise time is stretched
// over all columns. With `end_ns`, for pictures to be compared, time is stretched so that the right
// edge is `end_ns`; it is not before the last end.
Raster Rasterize(const Timeline& timeline, int columns, int slices_per_column, int64_t end_ns = 0);

}  // namespace stringline
