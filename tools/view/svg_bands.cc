#include "tools/view/svg_bands.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {
namespace {

// Adds `share` of the time from start to end to its columns.
void AddTime(double start, double end, double share, int kind,
             std::vector<std::array<double, kComputeKinds>>* columns) {
  const auto last = static_cast<int>(columns->size()) - 1;
  for (int c = static_cast<int>(start); c <= std::min(last, static_cast<int>(end)); ++c) {
    const double inside = std::min(end, c + 1.0) - std::max(start, static_cast<double>(c));
    if (inside > 0) (*columns)[static_cast<size_t>(c)][static_cast<size_t>(kind)] += inside * share;
  }
}

}  // namespace

std::vector<std::array<double, kComputeKinds>> SharesOfColumns(absl::Span<const Event> events,
                                                               int64_t end_ns, int columns) {
  std::vector<std::array<double, kComputeKinds>> shares(static_cast<size_t>(columns));
  if (end_ns == 0) return shares;
  const double per_ns = static_cast<double>(columns) / static_cast<double>(end_ns);
  for (size_t i = 0; i < events.size();) {
    size_t end = i + 1;
    while (end < events.size() && events[end].joined) ++end;
    for (size_t k = i; k < end && IsCompute(events[i].kind); ++k) {
      AddTime(static_cast<double>(events[k].start_ns) * per_ns,
              static_cast<double>(events[k].end_ns) * per_ns, 1.0 / static_cast<double>(end - i),
              static_cast<int>(events[k].kind), &shares);
    }
    i = end;
  }
  return shares;
}

// The area below the sum of all kinds up to one of them, the largest first: each area covers the
// lower part of the area before.
std::string DrawBands(const std::vector<std::array<double, kComputeKinds>>& columns,
                      const std::array<const char*, kComputeKinds>& fills, const char* idle,
                      double x, double y, double width, double height) {
  std::string out =
      absl::StrFormat("<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'/>\n", x, y,
                      width, height, idle);
  const double step = width / static_cast<double>(columns.size());
  for (int kind = kComputeKinds - 1; kind >= 0; --kind) {
    std::string path = absl::StrFormat("M%.1f %.1f", x, y + height);
    int before = 0;  // tenths of a point
    bool any = false;
    for (size_t c = 0; c < columns.size(); ++c) {
      // Skips columns without this kind: its edge would show behind the others.
      const bool here = columns[c][static_cast<size_t>(kind)] > 0;
      double share = 0;
      for (int k = 0; k <= kind && here; ++k) share += columns[c][static_cast<size_t>(k)];
      any = any || here;
      const int top = static_cast<int>(std::lround(std::min(share, 1.0) * height * 10));
      if (top == before) continue;
      absl::StrAppendFormat(&path, "H%.1fV%.1f", x + step * static_cast<double>(c),
                            y + height - top / 10.0);
      before = top;
    }
    if (!any) continue;
    absl::StrAppendFormat(&path, "H%.1fV%.1fZ", x + width, y + height);
    absl::StrAppend(&out, "<path d='", path, "' fill='", fills[static_cast<size_t>(kind)], "'/>\n");
  }
  return out;
}

}  // namespace stringline
