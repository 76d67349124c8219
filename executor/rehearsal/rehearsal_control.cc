#include "executor/rehearsal/rehearsal_control.h"

#include <algorithm>

#include "schedlang/base/status.h"
#include "schedlang/costs/overlapped.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

// The holds of a step for a group, one after the other: its time if every part takes one.
int HoldsFor(const Plan& plan, const StageWork& work, absl::Span<const Action> group) {
  if (group[0].kind == ActionKind::kUpdate) return 1;
  std::vector<PartCosts> costs(group.size());
  std::vector<PricedMember> members;
  bool in_parts = false;
  for (size_t i = 0; i < group.size(); ++i) {
    costs[i].ns.fill(plan.chunks);
    costs[i].layers = work.layers(group[i].stage);
    in_parts = in_parts || costs[i].layers > 0;
    members.push_back({group[i].kind, &costs[i], group[i].stage});
  }
  if (!in_parts) return static_cast<int>(group.size()) * plan.chunks;
  int64_t holds = 0;
  for (const PartTime& part :
       RunGroup(members, FindOverlap(plan, group), {.chunks = plan.chunks})) {
    holds = std::max(holds, part.end_ns);
  }
  return static_cast<int>(holds);
}

}  // namespace

RehearsalControl::RehearsalControl(int ranks)
    : ranks_(static_cast<size_t>(ranks)), meeting_(ranks, nullptr) {
  meeting_.exchange = [](const void*, MeetingPlace::Ends) { return absl::OkStatus(); };
  meeting_.describe = [](const void*, int, const void*) -> std::string {
    return "the other ranks of the control";
  };
}

absl::StatusOr<std::unique_ptr<RehearsalControl>> RehearsalControl::Make(
    const Plan& plan, const CostModel& costs, const StageWork& work, int threads, DeviceTime time) {
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
        const int holds = (HoldsFor(plan, work, group) + 1) / 2;
        rank.halves.push_back({cost_ns / 2, holds});
        rank.halves.push_back({cost_ns - cost_ns / 2, holds});
      }
      begin += group.size();
    }
    halves = std::max(halves, rank.halves.size());
  }
  std::vector<int64_t> longest_ns(halves, 0);
  for (int r = 0; r < plan.ranks(); ++r) {
    Rank& rank = control->ranks_[static_cast<size_t>(r)];
    rank.halves.resize(halves);
    rank.stream = control->device_->NewStream({}, control->HoldsOf(r) + static_cast<int>(halves));
    for (size_t k = 0; k < halves; ++k) {
      longest_ns[k] = std::max(longest_ns[k], rank.halves[k].ns);
    }
  }
  for (const int64_t ns : longest_ns) control->known_ns_ += ns;
  return control;
}

int RehearsalControl::HoldsOf(int rank) const {
  int holds = 0;
  for (const Half& half : ranks_[static_cast<size_t>(rank)].halves) holds += half.holds;
  return holds;
}

absl::StatusOr<int64_t> RehearsalControl::Run() {
  const int64_t start_ns = device_->NowNs();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    for (const Half& half : rank.halves) {
      for (int hold = 0; hold < half.holds; ++hold) {
        const int64_t begin_ns = half.ns * hold / half.holds;
        device_->Hold(rank.stream, half.ns * (hold + 1) / half.holds - begin_ns, &rank.last);
      }
      device_->Meet(rank.stream, &meeting_, static_cast<int>(r), nullptr);
    }
  }
  SL_RETURN_IF_ERROR(device_->Synchronize());
  int64_t took_ns = 0;
  for (const Rank& rank : ranks_) {
    if (!rank.halves.empty()) took_ns = std::max(took_ns, rank.last.end_ns - start_ns);
  }
  return took_ns;
}

}  // namespace stringline
