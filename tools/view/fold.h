// A long picture cut into bands of equal time, each below the last.
#pragma once

#include <cstdint>

#include "schedlang/plan/timeline.h"

namespace stringline {

inline constexpr int64_t kMostFolds = 40;

// So many bands that the shortest computation is `least` wide where a band is `width` wide, in
// columns or points; kMostFolds at most. The picture ends at `end_ns`, or with the last
// computation.
int64_t FoldsNeeded(const Timeline& timeline, int64_t end_ns, int64_t width, int64_t least);

}  // namespace stringline
