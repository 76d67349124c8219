// A row of a picture whose boxes would be too thin to see: in columns a few points wide, each
// filled from below by the shares of its time that the rank spent on each kind. The light rest is
// idle.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

inline constexpr double kBandColumn = 3;  // points

// By column, from 0 to `end_ns`, each kind's share of the column's time; the parts of a group
// divide theirs.
std::vector<std::array<double, kComputeKinds>> SharesOfColumns(absl::Span<const Event> events,
                                                               int64_t end_ns, int columns);

// The row as SVG, `width` by `height` points with its corner at x, y; `fills` by kind, `idle` for
// idle time.
std::string DrawBands(const std::vector<std::array<double, kComputeKinds>>& columns,
                      const std::array<const char*, kComputeKinds>& fills, const char* idle,
                      double x, double y, double width, double height);

}  // namespace stringline
