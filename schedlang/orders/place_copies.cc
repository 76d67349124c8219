#include "schedlang/orders/place_copies.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// Copies that a rank performs right before one of its groups.
struct CopiesBefore {
  std::vector<Action> offloads, fetches;
};

}  // namespace

Plan PlaceCopies(const Plan& plan, const std::vector<int64_t>& ahead) {
  Plan out = plan;
  out.actions.clear();
  std::vector<CopiesBefore> before;  // by group of the rank
  struct Begun {
    uint32_t forward = 0;  // the index of its F
    int64_t group = 0;
  };
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Begun> begun;
  for (int r = 0; r < plan.ranks(); ++r) {
    before.clear();
    begun.clear();
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      const Action& action = plan.actions[i];
      if (!action.joined) before.emplace_back();
      const auto group = static_cast<int64_t>(before.size()) - 1;
      const std::pair key(action.stage.value, action.microbatch.value);
      if (action.kind == ActionKind::kForward) begun[key] = {i, group};
      const Values needs = EffectsOf(plan, action).needs;
      const auto own = begun.find(key);
      if ((needs & (kSaved | kKept)) == 0 || own == begun.end()) continue;
      const int64_t offload = own->second.group + 2;
      const int64_t fetch = group - std::min(ahead[static_cast<size_t>(r)], group);
      if (fetch > offload) {
        Action copy = plan.actions[own->second.forward];
        copy.joined = false;
        copy.kind = ActionKind::kOffload;
        before[static_cast<size_t>(offload)].offloads.push_back(copy);
        copy.kind = ActionKind::kFetch;
        before[static_cast<size_t>(fetch)].fetches.push_back(copy);
      }
      begun.erase(own);  // the first that reads it
    }
    size_t group = 0;
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      if (!plan.actions[i].joined) {
        const CopiesBefore& copies = before[group++];
        out.actions.insert(out.actions.end(), copies.offloads.begin(), copies.offloads.end());
        out.actions.insert(out.actions.end(), copies.fetches.begin(), copies.fetches.end());
      }
      out.actions.push_back(plan.actions[i]);
    }
    out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
  }
  return out;
}

}  // namespace stringline
