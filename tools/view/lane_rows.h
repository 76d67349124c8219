// A timeline with a row for each lane instead of each rank: what a rank computes, part by part, and
// below it its all-to-alls. For pictures that are drawn row by row.
#pragma once

#include <string>
#include <vector>

#include "schedlang/timeline.h"

namespace stringline {

struct LaneRows {
  // Row r is what a picture calls rank r. Its events are parts as events of their own, by start, in
  // the kind of their action (a W part of a B: W), and groups that have no parts as they are.
  Timeline timeline;
  std::vector<std::string> names;  // by row: "rank 3", "network"
  std::vector<bool> network;       // by row
  std::vector<int> rank;           // by row: whose it is
};

LaneRows RowsByLane(const Timeline& timeline);

}  // namespace stringline
