#include "tools/view/lane_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/parts/parts.h"

namespace stringline {
namespace {

Event EventOfPart(const Timeline& timeline, const PartEvent& part) {
  Event event = timeline.events[part.event];
  event.joined = false;
  event.start_ns = part.start_ns;
  event.end_ns = part.end_ns;
  const ActionKind of = RowOfPart(part.part).of;
  if (of != ActionKind::kInputGradient) event.kind = of;
  return event;
}

}  // namespace

LaneRows RowsByLane(const Timeline& timeline) {
  LaneRows rows;
  rows.timeline.origin = timeline.origin;
  rows.timeline.schedule = timeline.schedule;
  rows.timeline.parameters = timeline.parameters;
  rows.timeline.pipes = timeline.pipes;
  const auto add = [&rows](int rank, bool network, std::vector<std::vector<Event>> groups) {
    std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return a.front().start_ns < b.front().start_ns;
    });
    for (const auto& group : groups) {
      rows.timeline.events.insert(rows.timeline.events.end(), group.begin(), group.end());
    }
    rows.timeline.first.push_back(static_cast<uint32_t>(rows.timeline.events.size()));
    rows.names.push_back(network ? "network" : absl::StrCat("rank ", rank));
    rows.network.push_back(network);
    rows.rank.push_back(rank);
  };
  size_t p = 0;
  for (int rank = 0; rank < timeline.ranks(); ++rank) {
    std::vector<std::vector<Event>> compute, network;
    const uint32_t last = timeline.first[rank + 1];
    for (uint32_t i = timeline.first[rank]; i < last;) {
      const uint32_t group = i++;
      while (i < last && timeline.events[i].joined) ++i;
      const size_t first_part = p;
      for (; p < timeline.parts.size() && timeline.parts[p].event < i; ++p) {
        const PartEvent& part = timeline.parts[p];
        (LaneOf(part.part) == Lane::kNetwork ? network : compute)
            .push_back({EventOfPart(timeline, part)});
      }
      if (p > first_part || !IsCompute(timeline.events[group].kind)) continue;
      compute.emplace_back(timeline.events.begin() + group, timeline.events.begin() + i);
    }
    add(rank, /*network=*/false, std::move(compute));
    add(rank, /*network=*/true, std::move(network));
  }
  return rows;
}

}  // namespace stringline
