// Stage programs that compute nothing and take exactly as long as they are said to, on a device
// that holds (held_device.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/replicas.h"
#include "executor/stage_work.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

class HeldStages final : public StageWork {
 public:
  // Where the costs give a stage's parts, and neither FB nor noise speaks against it, every part
  // holds its lane. Otherwise every group of the plan holds its rank for its cost (costs.h),
  // whatever its parts would cost alone. Messages are empty, and in flight for their latency when
  // they have left their channel. No stage performs an action twice.
  //
  // Ranks that hold replicas of a stage reduce its gradients in a call on a group of `groups`, the
  // index of its name is the stage's in its pipe, and ReductionNs what it takes. Without pipes
  // there are no such groups, and `groups` may be null.
  HeldStages(const Plan& plan, const CostModel& costs, Groups* groups);

  // The largest cost among the replicas of the k-th stages of all pipes.
  int64_t ReductionNs(int64_t k) const { return reductions_ns_[static_cast<size_t>(k)]; }

  int layers(StageId stage) const override;
  Piece Compute(const Action& action, LayerPart part) override;
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
  // A message's latency.
  Work InFlight(const Action& recv) const override;
  absl::StatusOr<Piece> Collective(const Action& action) override;

 private:
  void FindLatencies(const Plan& plan, const CostModel& costs);
  size_t Index(const Action& action) const;
  Piece Reduction(StageId stage);
  static std::string PrintReduction(const void* self, int64_t part);

  const size_t stages_;
  const size_t microbatches_;
  const std::vector<int64_t> unshard_ns_;  // by stage; empty: no time
  const std::vector<int64_t> reduce_ns_;
  // By the stage that gets it: the latency of an activation, and of a gradient.
  std::vector<int64_t> activation_ns_, gradient_ns_;
  const Replicas replicas_;
  std::vector<int64_t> reductions_ns_;  // by place in the pipe
  std::vector<int> came_;               // by stage of the first copy on its rank: how many have
  std::vector<PartCosts> parts_;        // by stage; empty: groups are held whole
  // By kind, stage and microbatch: the cost of the group for the first of its actions, 0 for
  // others.
  std::vector<int64_t> hold_ns_;
};

}  // namespace stringline
