// Plan + costs -> Timeline, in virtual time. Pure: no clock, no randomness.
//
// The model, lane by lane of every rank:
//
//   compute       performs the groups of the rank in order. A group starts when the one before it
//                 has ended and what it needs is there; what it gives is there when it ends.
//   communicator  one in-order queue for every communicator the rank uses (communicators.h): a
//                 call starts when the one before it has ended and, for a send, its value exists.
//                 A message moves when both its ends have started. It occupies both queues for its
//                 transfer (bytes by bandwidth), and arrives a latency later. Where messages
//                 share a link, they share its bandwidth (shared_links.h).
//   data          gathers (UNSHARD) and reductions (REDUCE_GRAD) in order. A gather may start as
//   parallel      soon as the RESHARD before it has made room, a reduction when the computation
//                 listed before it has ended. Where ranks hold replicas of a stage (Plan::pipes),
//                 its reduction starts when it could on all of them, and takes as long as it does
//                 for the slowest; a rank with several of them does all with the last one it lists.
//                 Otherwise the ranks of the group run the same plan, and are as far.
//
// Where nothing but latencies is given and the layout is `edge`, this is the model of the Zero
// Bubble papers' scripts.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

// `lowered` is a lowered plan that passes Check for the layout; FailedPrecondition for one that
// cannot end, naming reductions that wait for each other. Both ends of a message have the time from
// when it moves to when it has arrived. Cost: linear in actions.
absl::StatusOr<Timeline> Simulate(const Plan& lowered, const CostModel& costs,
                                  CommLayout layout = CommLayout::kEdge);

// The same for a plan whose wiring is known, where many costs are asked for. Receive buffers are
// those of the wiring.
absl::StatusOr<Timeline> Simulate(const Plan& lowered, const Wiring& wiring,
                                  const CostModel& costs);

// The same as far as it goes, for whoever says why a plan never ends: what has not ended has an end
// of -1, and what has not started a start of -1.
Timeline SimulateAsFarAsItGoes(const Plan& lowered, const Wiring& wiring, const CostModel& costs);

}  // namespace stringline
