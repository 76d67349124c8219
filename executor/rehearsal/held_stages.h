// Stage programs that compute nothing and take exactly their given time, on a device that holds
// (held_device.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/engine/stage_work.h"
#include "executor/rehearsal/own_calls.h"
#include "executor/training/replicas.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/buckets.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class HeldStages final : public StageWork {
 public:
  // If the costs give a stage's parts, and have neither FB nor noise, every part holds its lane.
  // Otherwise every group of the plan holds its rank for its cost (costs.h), whatever its parts
  // would cost alone, with the share of its microbatch. Messages are empty, and in flight for their
  // latency after leaving their channel. No stage performs an action twice.
  //
  // Ranks that hold replicas of a stage reduce its gradients in a call for each bucket on a group
  // of `groups`; its duration is ReductionNs of the index in its name. Without pipes no groups are
  // made, and `groups` may be null.
  HeldStages(const Plan& plan, const CostModel& costs, Groups* groups);

  // The time of a bucket by the largest cost among the replicas. The index is the stage's in its
  // pipe, plus the number of stages for each bucket before.
  int64_t ReductionNs(int64_t index) const;

  int layers(StageId stage) const override;
  Piece Compute(const Action& action, LayerPart part) override;
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
  absl::StatusOr<Piece> Update(const Action& action) override;
  absl::StatusOr<Work> Copy(const Action& action) override;
  absl::StatusOr<Piece> Own(const OwnAction& row, const Action& action) override;
  // The time of a meeting of own actions, by the index in its name.
  int64_t OwnNs(int64_t index) const { return own_meetings_ns_[static_cast<size_t>(index)]; }
  // A message's latency.
  Work InFlight(const Action& recv) const override;
  bool MeetsBuckets(const Action& collective) const override;
  std::vector<BucketPiece> ComputeByBucket(const Action& action, bool gathers,
                                           bool reduces) override;
  int BucketsRead(const Action& action, LayerPart part) override;
  std::vector<int> BucketsGiven(const Action& action, LayerPart part) override;
  absl::StatusOr<std::vector<Piece>> Collective(const Action& action,
                                                const Action* inside) override;

 private:
  void FindLatencies(const Plan& plan, const CostModel& costs);
  size_t Index(const Action& action) const;
  // The time of one of so many buckets of all.
  static int64_t BucketNs(int64_t all_ns, int64_t buckets, int64_t bucket) {
    return bucket == 0 ? FirstBucketNs(all_ns, buckets) : LaterBucketNs(all_ns, buckets);
  }
  static std::vector<Piece> Held(int64_t all_ns, int64_t buckets);
  std::vector<Piece> Reduction(StageId stage, bool by_bucket);
  static std::string PrintReduction(const void* self, int64_t index);

  const Plan& plan_;
  const size_t stages_;
  const size_t microbatches_;
  const int chunks_;
  const CostModel costs_;
  std::vector<int64_t> buckets_;  // by stage
  // By edge: the latency of an activation, and of a gradient.
  std::vector<int64_t> activation_ns_, gradient_ns_;
  const OwnCalls own_calls_;
  std::vector<int64_t> own_meetings_ns_;  // by meeting
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
