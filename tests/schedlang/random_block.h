// Orders of parts that an `overlap` block may give, and orders seen in a timeline.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "schedlang/plan/pair_order.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// A block in an order that can run: the parts of a pair of layers, drawn one after the other from
// those whose own preceding part was drawn.
template <typename Random>
Overlap RandomBlock(bool whole, Random* random) {
  const ActionKind backward = whole ? ActionKind::kBackward : ActionKind::kInputGradient;
  Overlap block;
  block.kinds = {ActionKind::kForward, backward};
  block.kind_spans.resize(2);
  std::set<int> drawn;
  while (true) {
    std::vector<int> ready;
    for (int part = 0; part < kParts; ++part) {
      const PartRow& row = RowOfPart(part);
      if (row.once || drawn.count(part) > 0) continue;
      if (row.of == ActionKind::kWeightGradient && !whole) continue;
      if (row.where == After::kSameLayer && drawn.count(row.after) == 0) continue;
      ready.push_back(part);
    }
    if (ready.empty()) return block;
    const int part = ready[(*random)() % ready.size()];
    drawn.insert(part);
    const ActionKind of =
        RowOfPart(part).of == ActionKind::kInputGradient ? backward : RowOfPart(part).of;
    (LaneOf(part) == Lane::kNetwork ? block.network : block.compute)
        .push_back({of, std::string(ShortName(part)), {}});
  }
}

// The order of a group's parts in a timeline, lane by lane by their starts.
inline std::string ShownOrder(const Timeline& timeline, uint32_t first, uint32_t last) {
  PairOrder shown;
  std::vector<PartEvent> parts;
  for (const PartEvent& part : timeline.parts) {
    if (part.event >= first && part.event <= last) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  for (const PartEvent& part : parts) {
    (LaneOf(part.part) == Lane::kNetwork ? shown.network : shown.compute)
        .push_back({part.part, part.layer});
  }
  return Print(shown);
}

}  // namespace stringline
