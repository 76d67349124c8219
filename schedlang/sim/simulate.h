// Plan + costs -> Timeline, in virtual time. Pure: no clock, no randomness.
//
// The model, lane by lane of every rank:
//
//   compute       performs the groups of the rank in order. A group starts when its predecessor has
//                 ended and its needs are available; its values are available when it ends.
//   communicator  one in-order queue for every communicator the rank uses (communicators.h): a
//                 call starts when its predecessor has ended and, for a send, its value exists.
//                 A message moves when both its ends have started. It occupies both queues for its
//                 transfer (bytes by bandwidth), and arrives a latency later. Messages on the same
//                 link share its bandwidth (shared_links.h).
//   data          gathers (UNSHARD) and reductions (REDUCE_GRAD) in order, bucket by bucket beside
//   parallel      the computations that need and give them (plan/buckets.h). A gather may start as
//                 soon as the RESHARD before it has made room, a reduction when the computation
//                 listed before it has the first bucket of its gradients: it takes equally long for
//                 each. A computation needs the k-th bucket after as large a part of its time. If
//                 ranks hold replicas of a stage (Plan::pipes), its
//                 reduction starts when all of them could start, and takes as long as the slowest
//                 needs; a rank with several of them does all with the last in its list. Otherwise
//                 the ranks of the group run the same plan, in step.
//
// With latencies only and the layout `edge`, this is the model of the Zero Bubble papers' scripts.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// `lowered` is a lowered plan that passes Check for the layout; FailedPrecondition for a plan that
// cannot end, naming reductions that wait for each other. Both ends of a message have its interval
// from departure to arrival. Cost: linear in actions.
absl::StatusOr<Timeline> Simulate(const Plan& lowered, const CostModel& costs,
                                  CommLayout layout = CommLayout::kEdge);

// The same for a plan with known wiring, for many cost models. Receive buffers are those of the
// wiring. Without `with_parts` the timeline has the events alone, for those who need no more.
absl::StatusOr<Timeline> Simulate(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                                  bool with_parts = true);

// The same in the place of a step of this plan that was simulated before, whose memory is reused.
absl::Status SimulateAgain(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                           Timeline* timeline);

// The same as far as the plan runs, to explain a plan that never ends: -1 stands for the end of an
// event without an end, and for its start if it has not started.
Timeline SimulateAsFarAsItGoes(const Plan& lowered, const Wiring& wiring, const CostModel& costs);

}  // namespace stringline
