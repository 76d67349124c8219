// What waits for what in a lowered plan, whatever things cost: the part of a simulation that is
// done once for many.
//
// An event of a timeline is an action of the plan, in the same place. Its start is the latest end
// among what its wire names (a group: among those of all its parts):
//
//   computation  `before`: the group before it on its rank; `input`, `gradient`: the receives that
//                bring what it needs from other ranks; `gathered`: the UNSHARD of its stage
//   send         `before`: the last part of the call before it in its queue; `other`: its receive;
//                `maker`: the computation whose result it sends
//   receive      `before`, `other`: its send, and `room`: with a bounded pool of receive buffers,
//                the computation that gives one back
//   collective   `before`: the gather or reduction before it on its rank; `after`: the last
//                computation listed before it, for an UNSHARD the last one before the RESHARD
//                before it; `meeting`: the same of all who take part in that reduction
//
// A runtime that issues one list in order holds up more, if it is asked for (WiringAsWritten): a
// send or a receive also waits for the last computation listed before it, and both it and a
// computation for the waits listed between.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/messages/replica_reductions.h"
#include "schedlang/plan.h"

namespace stringline {

inline constexpr uint32_t kNoAction = UINT32_MAX;

// One row of the table above. The names are those of its columns; which of them a kind of action
// uses decides how the two numbers in the middle are read.
struct Wire {
  uint32_t before = kNoAction;
  union {
    uint32_t input = kNoAction;  // of a computation
    uint32_t other;              // of a message
    uint32_t after;              // of a collective
  };
  union {
    uint32_t gradient = kNoAction;  // of a computation
    uint32_t maker;                 // of a send
    uint32_t room;                  // of a receive
    uint32_t comes_with;            // of a reduction of replicas: that with which its rank comes
  };
  union {
    uint32_t gathered = kNoAction;  // of a computation
    uint32_t queue;                 // of a message: index into Wiring::queues.all
    uint32_t meeting;               // of a reduction of replicas: index into Wiring::reductions
  };
};

// The rank goes on to actions[before], or to its end, when actions[until], of its own, has ended.
struct ListedWait {
  RankId rank;
  uint32_t before = 0;
  uint32_t until = 0;
};

// What is listed before an action and has to end first: the last computation (its first part), and
// the waits behind that, Wiring::waits[first_wait] .. waits[end_wait - 1].
struct ListedBefore {
  uint32_t computation = kNoAction;
  uint32_t first_wait = 0;
  uint32_t end_wait = 0;
};

struct Wiring {
  CommLayout layout = CommLayout::kEdge;
  CommQueues queues;
  std::vector<Wire> wires;  // by action
  // The messages of queue q, in order: calls[first_call[q]] .. calls[first_call[q + 1] - 1]. Those
  // of one grouped call follow each other.
  std::vector<uint32_t> calls;
  std::vector<uint32_t> first_call;
  // The queues of rank r: rank_queues[first_queue[r]] ..
  std::vector<int32_t> rank_queues;
  std::vector<uint32_t> first_queue;
  ReplicaReductions reductions;  // those that are one start and end together
  // By action, if messages are issued where they are written; empty: as early as they can be.
  std::vector<ListedBefore> listed;
  std::vector<ListedWait> waits;  // rank by rank, in the order of `before`
  // Every message has its other end, and every value that is sent or needed is made on its rank or
  // received there.
  bool whole = false;

  absl::Span<const uint32_t> of(int queue) const {
    return absl::MakeConstSpan(calls).subspan(first_call[queue],
                                              first_call[queue + 1] - first_call[queue]);
  }
  // The waits listed before the action and behind the computation before it.
  absl::Span<const ListedWait> WaitsBefore(uint32_t action) const {
    if (listed.empty()) return {};
    const ListedBefore& before = listed[action];
    return absl::MakeConstSpan(waits).subspan(before.first_wait,
                                              before.end_wait - before.first_wait);
  }
};

// `receive_buffers` is how many received values a rank can hold that are not used yet; 0: any
// number. A buffer is free again when the group that needs its value has ended, and receives take
// them in the order of the list. Cost: linear in actions, times the logarithm of the buffers.
Wiring WiringOf(const Plan& lowered, CommLayout layout, int receive_buffers = 0);

// The same where messages are issued in the order of each rank's list, with these waits, which are
// in order.
Wiring WiringAsWritten(const Plan& lowered, CommLayout layout, int receive_buffers,
                       std::vector<ListedWait> waits);

}  // namespace stringline
