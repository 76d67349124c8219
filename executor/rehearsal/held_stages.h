// Stage programs that compute nothing and take exactly their given time, on a device that holds
// (held_device.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/engine/stage_work.h"
#include "executor/training/replicas.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class HeldStages final : public StageWork {
 public:
  // If the costs give a stage's parts, and have neither FB nor noise, every part holds its lane.
  // Otherwise every group of the plan holds its rank for its cost (costs.h), whatever its parts
  // would cost alone. Messages are empty, and in flight for their latency after leaving their
  // channel. No stage performs an action twice.
  //
  // Ranks that hold replicas of a stage reduce its gradients in a call on a group of `groups`; the
  // index in its name is the stage's index in its pipe, and its duration is ReductionNs. Without
  // pipes no groups are made, and `groups` may be null.
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
  const int chunks_;
  const std::vector<int64_t> unshard_ns_;  // by stage; empty: no time
  const std::vector<int64_t> reduce_ns_;
  // By the receiving stage: the latency of an activation, and of a gradient.
  std::vector<int64_t> activation_ns_, gradient_ns_;
  const Replicas replicas_;
  std::vector<int64_t> reductions_ns_;  // by index in the pipe
  std::vector<int> came_;               // by stage of the first copy on its rank: the copies that
                                        // have come
  std::vector<PartCosts> parts_;        // by stage; empty: groups are held whole
  // By kind, stage and microbatch: the cost of the group for the first of its actions, 0 for
  // others.
  std::vector<int64_t> hold_ns_;
};

}  // namespace stringline
