#include "executor/lanes.h"

#include <algorithm>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

bool AddsIntoGradients(const Action& action) { return action.kind != ActionKind::kForward; }

}  // namespace

std::vector<uint8_t> LanesOf(const Plan& plan) {
  std::vector<uint8_t> lanes(plan.actions.size(), 0);
  size_t begin = 0;
  int used = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsCompute(action.kind)) continue;
    if (!action.joined) {
      begin = i;
      used = 0;
    }
    int lane = used;
    for (size_t j = begin; j < i; ++j) {
      const Action& other = plan.actions[j];
      if (other.stage == action.stage && AddsIntoGradients(other) && AddsIntoGradients(action)) {
        lane = lanes[j];
      }
    }
    SL_CHECK(lane <= UINT8_MAX) << "a group of more than 256 parts";
    lanes[i] = static_cast<uint8_t>(lane);
    used = std::max(used, lane + 1);
  }
  return lanes;
}

std::vector<int> LaneCounts(const Plan& plan, const std::vector<uint8_t>& lanes) {
  std::vector<int> counts(plan.ranks(), 1);
  for (int r = 0; r < plan.ranks(); ++r) {
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      counts[r] = std::max(counts[r], lanes[i] + 1);
    }
  }
  return counts;
}

}  // namespace stringline
