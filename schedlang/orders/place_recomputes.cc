#include "schedlang/orders/place_recomputes.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace stringline {

Plan PlaceRecomputes(const Plan& plan, const std::vector<int64_t>& ahead) {
  Plan out = plan;
  out.actions.clear();
  out.recompute.assign(plan.stages.size(), 1);
  std::vector<std::vector<Action>> before;  // by group of the rank: the R placed before it
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int64_t> forward;  // the group of an F
  for (int r = 0; r < plan.ranks(); ++r) {
    before.clear();
    forward.clear();
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      const Action& action = plan.actions[i];
      if (!action.joined) before.emplace_back();
      const auto group = static_cast<int64_t>(before.size()) - 1;
      const std::pair key(action.stage.value, action.microbatch.value);
      if (action.kind == ActionKind::kForward) forward[key] = group;
      if (action.kind != ActionKind::kBackward && action.kind != ActionKind::kInputGradient) {
        continue;
      }
      const auto own = forward.find(key);
      const int64_t behind = own == forward.end() ? 0 : own->second + 1;
      const int64_t at = std::max(group - std::min(ahead[static_cast<size_t>(r)], group), behind);
      Action again = action;
      again.kind = ActionKind::kRecompute;
      again.joined = false;
      before[static_cast<size_t>(std::min(at, group))].push_back(again);
    }
    size_t group = 0;
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      if (!plan.actions[i].joined) {
        const std::vector<Action>& placed = before[group++];
        out.actions.insert(out.actions.end(), placed.begin(), placed.end());
      }
      out.actions.push_back(plan.actions[i]);
    }
    out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
  }
  FindRemaking(&out);
  return out;
}

}  // namespace stringline
