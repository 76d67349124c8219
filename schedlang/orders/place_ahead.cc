#include "schedlang/orders/place_ahead.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// By group of a rank: the actions placed right before it.
using Placed = std::vector<std::vector<Action>>;

template <typename Value>
using ByMicrobatch = absl::flat_hash_map<std::pair<int32_t, int32_t>, Value>;  // of a stage

std::pair<int32_t, int32_t> KeyOf(const Action& action) {
  return {action.stage.value, action.microbatch.value};
}

bool TakesPart(absl::Span<const int64_t> stages, StageId stage) {
  return stages.empty() || stages[static_cast<size_t>(stage.value)] != 0;
}

Action WithKind(Action action, ActionKind kind) {
  action.kind = kind;
  action.joined = false;
  return action;
}

// The plan with the actions that place(action, rank, group, &placed) puts before the groups that
// the rank's list has had so far, this action's own `group` being the last.
template <typename Place>
Plan WithPlaced(const Plan& plan, Place place) {
  Plan out = plan;
  out.actions.clear();
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto list = plan.of(RankId(r));
    Placed placed;
    for (const Action& action : list) {
      if (!action.joined) placed.emplace_back();
      place(action, static_cast<size_t>(r), static_cast<int64_t>(placed.size()) - 1, &placed);
    }
    auto next = placed.begin();
    for (const Action& action : list) {
      if (!action.joined) {
        // A D comes before a U, which may take the memory that it frees.
        std::stable_sort(next->begin(), next->end(),
                         [](const Action& a, const Action& b) { return a.kind < b.kind; });
        out.actions.insert(out.actions.end(), next->begin(), next->end());
        ++next;
      }
      out.actions.push_back(action);
    }
    out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
  }
  return out;
}

}  // namespace

Plan PlaceRecomputes(const Plan& plan, const std::vector<int64_t>& ahead,
                     absl::Span<const int64_t> stages) {
  ByMicrobatch<int64_t> forward;  // the group of its F
  const auto place = [&](const Action& action, size_t rank, int64_t group, Placed* placed) {
    if (!TakesPart(stages, action.stage)) return;
    if (action.kind == ActionKind::kForward) forward[KeyOf(action)] = group;
    if (action.kind != ActionKind::kBackward && action.kind != ActionKind::kInputGradient) return;
    const auto own = forward.find(KeyOf(action));
    const int64_t behind = own == forward.end() ? 0 : own->second + 1;
    const int64_t at = std::min(std::max(group - std::min(ahead[rank], group), behind), group);
    (*placed)[static_cast<size_t>(at)].push_back(WithKind(action, ActionKind::kRecompute));
  };
  Plan out = WithPlaced(plan, place);
  out.recompute.resize(plan.stages.size(), 0);
  for (size_t s = 0; s < out.recompute.size(); ++s) {
    if (TakesPart(stages, StageId(static_cast<int32_t>(s)))) out.recompute[s] = 1;
  }
  FindRemaking(&out);
  return out;
}

Plan PlaceCopies(const Plan& plan, const std::vector<int64_t>& ahead,
                 absl::Span<const int64_t> stages) {
  struct Begun {
    Action forward;
    int64_t group = 0;
  };
  ByMicrobatch<Begun> begun;
  const auto place = [&](const Action& action, size_t rank, int64_t group, Placed* placed) {
    if (!TakesPart(stages, action.stage)) return;
    if (action.kind == ActionKind::kForward) begun[KeyOf(action)] = {action, group};
    const Values needs = EffectsOf(plan, action).needs;
    const auto own = begun.find(KeyOf(action));
    if ((needs & (kSaved | kKept)) == 0 || own == begun.end()) return;
    const auto& [forward, of_forward] = own->second;
    const int64_t offload = of_forward + 2;
    const int64_t fetch = group - std::min(ahead[rank], group);
    if (fetch > offload) {
      (*placed)[static_cast<size_t>(offload)].push_back(WithKind(forward, ActionKind::kOffload));
      (*placed)[static_cast<size_t>(fetch)].push_back(WithKind(forward, ActionKind::kFetch));
    }
    begun.erase(own);  // the first action that reads the values needs their U
  };
  return WithPlaced(plan, place);
}

}  // namespace stringline
