#include "executor/rehearsal/rehearsal_control.h"

#include <algorithm>

#include "schedlang/base/status.h"

namespace stringline {

RehearsalControl::RehearsalControl(int ranks)
    : ranks_(static_cast<size_t>(ranks)), meeting_(ranks, nullptr) {
  meeting_.exchange = [](const void*, MeetingPlace::Ends) { return absl::OkStatus(); };
  meeting_.describe = [](const void*, int, const void*) -> std::string {
    return "the other ranks of the control";
  };
}

absl::StatusOr<std::unique_ptr<RehearsalControl>> RehearsalControl::Make(const Plan& plan,
                                                                         const CostModel& costs,
                                                                         int threads,
                                                                         DeviceTime time) {
  std::unique_ptr<RehearsalControl> control(new RehearsalControl(plan.ranks()));
  SL_ASSIGN_OR_RETURN(control->device_, CpuDevice::Make(threads, nullptr, time));
  size_t halves = 0;
  for (int r = 0; r < plan.ranks(); ++r) {
    Rank& rank = control->ranks_[static_cast<size_t>(r)];
    for (size_t begin = plan.first[r]; begin < plan.first[r + 1];) {
      const auto group = GroupAt(plan.actions, begin);
      if (IsCompute(group[0].kind)) {
        int64_t cost_ns = GroupCost(costs, group);
        if (!costs.noise.empty()) cost_ns = costs.noise.Of(static_cast<uint32_t>(begin), cost_ns);
        rank.halves_ns.push_back(cost_ns / 2);
        rank.halves_ns.push_back(cost_ns - cost_ns / 2);
      }
      begin += group.size();
    }
    halves = std::max(halves, rank.halves_ns.size());
  }
  std::vector<int64_t> longest_ns(halves, 0);
  for (Rank& rank : control->ranks_) {
    rank.halves_ns.resize(halves, 0);
    rank.stream = control->device_->NewStream({}, static_cast<int>(2 * halves));
    for (size_t k = 0; k < halves; ++k) {
      longest_ns[k] = std::max(longest_ns[k], rank.halves_ns[k]);
    }
  }
  for (const int64_t ns : longest_ns) control->known_ns_ += ns;
  return control;
}

absl::StatusOr<int64_t> RehearsalControl::Run() {
  const int64_t start_ns = device_->NowNs();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    for (const int64_t ns : rank.halves_ns) {
      device_->Hold(rank.stream, ns, &rank.last);
      device_->Meet(rank.stream, &meeting_, static_cast<int>(r), nullptr);
    }
  }
  SL_RETURN_IF_ERROR(device_->Synchronize());
  int64_t took_ns = 0;
  for (const Rank& rank : ranks_) {
    if (!rank.halves_ns.empty()) took_ns = std::max(took_ns, rank.last.end_ns - start_ns);
  }
  return took_ns;
}

}  // namespace stringline
