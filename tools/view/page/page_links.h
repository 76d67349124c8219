// The connections of a page's events: lanes, and the events that each event needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/view/page/html.h"

namespace stringline {

enum class PageLaneKind : uint8_t { kCompute, kMessages, kAllToAll, kCollectives, kCopies };

struct PageLane {
  PageLaneKind kind = PageLaneKind::kCompute;
  std::string name;
};

// Lanes of rank r: lanes[r], the first its computation. `of` gives the lane of every event, an
// index into those of its rank.
struct PageLanes {
  std::vector<std::vector<PageLane>> lanes;
  std::vector<int32_t> of;
};
PageLanes LanesOf(const PageTimeline& page);

// By event; -1 for none. See page_data.h.
struct PageNeeds {
  std::vector<int64_t> giver;
  std::vector<int64_t> own;
  std::vector<int64_t> via;
};
PageNeeds NeedsOf(const PageTimeline& page);

}  // namespace stringline
