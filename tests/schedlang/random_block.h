// Orders of parts that an `overlap` block may give, and orders seen in a timeline.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedlang/plan/group_order.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// True if an action of the kind has this part: a B has those of an I and of a W.
inline bool HasPart(ActionKind kind, int part) {
  const ActionKind of = RowOfPart(part).of;
  return Performs(kind, of) || (of == ActionKind::kInputGradient && kind == ActionKind::kBackward);
}

// A block in an order that can run: the parts of one layer of every action, drawn one after the
// other from those whose own preceding part was drawn.
template <typename Random>
Overlap RandomBlock(const std::vector<ActionKind>& kinds, Random* random) {
  Overlap block;
  block.kinds = kinds;
  block.kind_spans.resize(kinds.size());
  std::set<std::pair<int, int>> drawn;  // place, part
  while (true) {
    std::vector<std::pair<int, int>> ready;
    for (int place = 0; place < static_cast<int>(kinds.size()); ++place) {
      for (int part = 0; part < kParts; ++part) {
        const PartRow& row = RowOfPart(part);
        if (row.once || !HasPart(kinds[place], part) || drawn.count({place, part}) > 0) continue;
        const bool follows = row.where == After::kSameLayer && HasPart(kinds[place], row.after);
        if (follows && drawn.count({place, row.after}) == 0) continue;
        bool adds_early = false;  // before the same gradients of an earlier action
        for (int earlier = 0; earlier < place && AddsGradients(part); ++earlier) {
          adds_early |= HasPart(kinds[earlier], part) && drawn.count({earlier, part}) == 0;
        }
        if (adds_early) continue;
        ready.emplace_back(place, part);
      }
    }
    if (ready.empty()) return block;
    const auto [place, part] = ready[(*random)() % ready.size()];
    drawn.emplace(place, part);
    const ActionKind of =
        RowOfPart(part).of == ActionKind::kInputGradient ? kinds[place] : RowOfPart(part).of;
    (LaneOf(part) == Lane::kNetwork ? block.network : block.compute)
        .push_back({of, std::string(ShortName(part)), {}, place});
  }
}
template <typename Random>
Overlap RandomBlock(bool whole, Random* random) {
  return RandomBlock(
      {ActionKind::kForward, whole ? ActionKind::kBackward : ActionKind::kInputGradient}, random);
}

// The order of a group's parts in a timeline, lane by lane by their starts.
inline std::string ShownOrder(const Timeline& timeline, uint32_t first, uint32_t last) {
  GroupOrder shown;
  std::vector<PartEvent> parts;
  for (const PartEvent& part : timeline.parts) {
    if (part.event >= first && part.event <= last) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  for (const PartEvent& part : parts) {
    (LaneOf(part.part) == Lane::kNetwork ? shown.network : shown.compute)
        .push_back({part.part, part.layer, static_cast<uint8_t>(part.event - first)});
  }
  return Print(shown);
}

}  // namespace stringline
