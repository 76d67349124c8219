#include "tools/view/fold.h"

#include <algorithm>

namespace stringline {

int64_t FoldsNeeded(const Timeline& timeline, int64_t end_ns, int64_t width, int64_t least) {
  int64_t shortest_ns = 0;
  for (const Event& event : timeline.events) {
    if (!IsCompute(event.kind)) continue;
    end_ns = std::max(end_ns, event.end_ns);
    const int64_t length = event.end_ns - event.start_ns;
    if (length > 0 && (shortest_ns == 0 || length < shortest_ns)) shortest_ns = length;
  }
  if (shortest_ns == 0) return 1;
  const int64_t columns = (end_ns + shortest_ns - 1) / shortest_ns * least;
  return std::clamp<int64_t>((columns + width - 1) / width, 1, kMostFolds);
}

}  // namespace stringline
