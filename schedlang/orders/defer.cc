#include "schedlang/orders/defer.h"

namespace stringline {

Plan DeferWeightGradients(const Plan& plan, const std::vector<int64_t>& late) {
  Plan out = plan;
  out.actions.clear();
  std::vector<Action> gradients;  // the rank's, in order
  std::vector<bool> deferred;     // by gradient: was a B
  for (int r = 0; r < plan.ranks(); ++r) {
    gradients.clear();
    deferred.clear();
    size_t done = 0;  // gradients whose weight gradient was looked at
    const auto put_weight = [&] {
      if (deferred[done]) {
        Action weight = gradients[done];
        weight.kind = ActionKind::kWeightGradient;
        weight.joined = false;
        out.actions.push_back(weight);
      }
      ++done;
    };
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      Action action = plan.actions[i];
      const bool whole = action.kind == ActionKind::kBackward;
      if (whole) action.kind = ActionKind::kInputGradient;
      out.actions.push_back(action);
      if (action.kind == ActionKind::kInputGradient) {
        gradients.push_back(action);
        deferred.push_back(whole);
      }
      const bool ends = i + 1 == plan.first[r + 1] || !plan.actions[i + 1].joined;
      while (ends &&
             static_cast<int64_t>(gradients.size()) > static_cast<int64_t>(done) + late[r]) {
        put_weight();
      }
    }
    while (done < gradients.size()) put_weight();
    out.first[r + 1] = static_cast<uint32_t>(out.actions.size());
  }
  return out;
}

}  // namespace stringline
