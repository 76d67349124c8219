#include "executor/rehearsal_control.h"

#include <algorithm>

#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<RehearsalControl>> RehearsalControl::Make(const Plan& plan,
                                                                         const CostModel& costs,
                                                                         int threads,
                                                                         DeviceTime time) {
  std::unique_ptr<RehearsalControl> control(new RehearsalControl);
  SL_ASSIGN_OR_RETURN(control->device_, CpuDevice::Make(threads, nullptr, time));
  control->ranks_.resize(static_cast<size_t>(plan.ranks()));
  for (int r = 0; r < plan.ranks(); ++r) {
    Rank& rank = control->ranks_[static_cast<size_t>(r)];
    int64_t sum_ns = 0;
    for (size_t begin = plan.first[r]; begin < plan.first[r + 1];) {
      const auto group = GroupAt(plan.actions, begin);
      if (IsCompute(group[0].kind)) {
        const int64_t cost_ns = GroupCost(costs, group);
        rank.holds_ns.push_back(
            costs.noise.empty() ? cost_ns : costs.noise.Of(static_cast<uint32_t>(begin), cost_ns));
        sum_ns += rank.holds_ns.back();
      }
      begin += group.size();
    }
    control->known_ns_ = std::max(control->known_ns_, sum_ns);
    rank.stream = control->device_->NewStream({}, static_cast<int>(rank.holds_ns.size()));
  }
  return control;
}

absl::StatusOr<int64_t> RehearsalControl::Run() {
  const int64_t start_ns = device_->NowNs();
  for (Rank& rank : ranks_) {
    for (const int64_t ns : rank.holds_ns) device_->Hold(rank.stream, ns, &rank.last);
  }
  SL_RETURN_IF_ERROR(device_->Synchronize());
  int64_t took_ns = 0;
  for (const Rank& rank : ranks_) {
    if (!rank.holds_ns.empty()) took_ns = std::max(took_ns, rank.last.end_ns - start_ns);
  }
  return took_ns;
}

}  // namespace stringline
