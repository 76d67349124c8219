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
  // Every message has its other end, and every value that is sent or needed is made on its rank or
  // received there.
  bool whole = false;

  absl::Span<const uint32_t> of(int queue) const {
    return absl::MakeConstSpan(calls).subspan(first_call[queue],
                                              first_call[queue + 1] - first_call[queue]);
  }
};

// `receive_buffers` is how many received values a rank can hold that are not used yet; 0: any
// number. A buffer is free again when the group that needs its value has ended, and receives take
// them in the order of the list. Cost: linear in actions, times the logarithm of the buffers.
Wiring WiringOf(const Plan& lowered, CommLayout layout, int receive_buffers = 0);

}  // namespace stringline
