#include "tools/view/traced.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stringline {

MemoryCurve MicrobatchesInFlight(const Timeline& timeline, RankId rank) {
  // By microbatch of the step: the time of the rank's first and last work.
  std::map<int, std::pair<int64_t, int64_t>> spans;
  for (const Event& event : timeline.of(rank)) {
    if (!IsCompute(event.kind) || !IsOfMicrobatch(event.kind)) continue;
    const auto [span, is_new] =
        spans.try_emplace(MicrobatchOfStep(timeline, event), event.start_ns, event.end_ns);
    if (is_new) continue;
    span->second.first = std::min(span->second.first, event.start_ns);
    span->second.second = std::max(span->second.second, event.end_ns);
  }
  std::map<int64_t, int64_t> changes;
  for (const auto& [key, span] : spans) {
    ++changes[span.first];
    --changes[span.second];
  }
  MemoryCurve curve;
  int64_t amount = 0;
  for (const auto& [time_ns, change] : changes) {
    if (change == 0) continue;
    amount += change;
    curve.points.push_back({time_ns, amount});
    if (amount > curve.peak) {
      curve.peak = amount;
      curve.peak_ns = time_ns;
    }
  }
  return curve;
}

}  // namespace stringline
