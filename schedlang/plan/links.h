// Links of a lowered plan: for every action, the actions that it waits for, independent of costs.
// A simulation needs them once for any number of cost models.
//
// An event of a timeline is an action of the plan, in the same place. Its start is the latest end
// among the actions its wire names (a group: among those of all its parts):
//
//   computation  `before`: the group before it on its rank; `input`, `gradient`: the receives of
//                values from other ranks; `gathered`: the UNSHARD of its stage, for an UPDATE the
//                REDUCE_GRAD of its gradients; in a plan with copies those of CopyWire; where
//                stages are no chain further receives, as FurtherNeeds
//   send         `before`: the last part of the call before it in its queue; `other`: its receive;
//                `maker`: the computation that produces its value
//   receive      `before`, `other`: its send, and `room`: with a bounded pool of receive buffers,
//                the computation whose end frees a buffer
//   copy         `before`: the D, or the U, before it on its rank, and those of CopyWire
//   collective   `before`: the gather or reduction before it on its rank; `after`: the last
//                computation listed before it, for an UNSHARD the last computation before the
//                preceding RESHARD, or the UPDATE of its stage behind that; `meeting`: `after` of
//                all members of that reduction
//
//   own action   (rows.h) on the compute lane and the copy lanes as those; on the network `before`:
//                the own action before it there. All wait for the actions of FurtherNeeds, and
//                those of all ranks for each other (Wiring::meetings).
//
// Memory has the order of the list, however long copies take: what a D frees is free for all that
// is listed behind it, which waits for its end; a U takes memory behind what is listed before it. A
// D itself begins as soon as its values exist.
//
// A runtime that issues a single list in order waits longer, on request (WiringAsWritten): a send
// or a receive also waits for the last computation listed before it, and messages and computations
// wait for the waits listed in between.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/own_meetings.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/replica_reductions.h"

namespace stringline {

inline constexpr uint32_t kNoAction = UINT32_MAX;

// A row of the table above, with its columns as names. The kind of the action decides the reading
// of the shared numbers.
struct Wire {
  uint32_t before = kNoAction;
  union {
    uint32_t input = kNoAction;  // for a computation
    uint32_t other;              // for a message
    uint32_t after;              // for a collective
  };
  union {
    uint32_t gradient = kNoAction;  // for a computation
    uint32_t maker;                 // for a send
    uint32_t room;                  // for a receive
    uint32_t comes_with;            // for a reduction of replicas: the member its rank comes with
  };
  union {
    uint32_t gathered = kNoAction;  // for a computation; for an UPDATE its REDUCE_GRAD
    uint32_t queue;                 // for a message: index into Wiring::queues.all
    uint32_t meeting;               // for a reduction of replicas: index into Wiring::reductions
  };
};

// The waits of an action for copies to and from the host, and of a copy.
struct CopyWire {
  uint32_t source = kNoAction;  // for a computation, the U that brings what it needs; for a U, the
                                // D of its copy; for a D, the action that gave its values
  uint32_t freed = kNoAction;   // for a computation and a U: the last D listed before
  uint32_t after = kNoAction;   // for a U: the last computation listed before it
};

// The rank goes on to actions[before], or to its end, when actions[until], of its own, has ended.
struct ListedWait {
  RankId rank;
  uint32_t before = 0;
  uint32_t until = 0;
};

// The dependencies by list order of an action: the last computation before it (its first part), and
// the waits behind that computation, Wiring::waits[first_wait] .. waits[end_wait - 1].
struct ListedBefore {
  uint32_t computation = kNoAction;
  uint32_t first_wait = 0;
  uint32_t end_wait = 0;
};

struct Wiring {
  CommLayout layout = CommLayout::kEdge;
  CommQueues queues;
  std::vector<Wire> wires;  // by action
  // The messages of queue q, in order: calls[first_call[q]] .. calls[first_call[q + 1] - 1].
  // Messages of one grouped call are adjacent.
  std::vector<uint32_t> calls;
  std::vector<uint32_t> first_call;
  // The queues of rank r: rank_queues[first_queue[r]] ..
  std::vector<int32_t> rank_queues;
  std::vector<uint32_t> first_queue;
  ReplicaReductions reductions;  // members of a reduction start and end together
  // By action, if messages are issued where they are written; empty: as early as they can be.
  std::vector<ListedBefore> listed;
  std::vector<ListedWait> waits;  // rank by rank, in the order of `before`
  // By action, in a plan with copies; else empty.
  std::vector<CopyWire> copies;
  // The actions that action i needs beside those of its wire: in a plan with rows those on the same
  // rank, on other lanes, whose values it needs; where stages are no chain its second receive and
  // all others. Else empty.
  std::vector<uint32_t> further_needs;
  std::vector<uint32_t> first_further_need;
  OwnMeetings meetings;
  // By collective, the computation that may meet its buckets (buckets.h), or kNoAction. Empty for a
  // plan without collectives.
  std::vector<uint32_t> meeters;
  // Every message has its other end, and the producer of every sent or needed value is on its rank:
  // a computation or a receive.
  bool whole = false;
  // True if, besides, each queue holds one end of one channel, and receives wait for nothing but
  // the message before: every message leaves as soon as its sender lets it go.
  bool straight = false;

  absl::Span<const uint32_t> of(int queue) const {
    return absl::MakeConstSpan(calls).subspan(first_call[queue],
                                              first_call[queue + 1] - first_call[queue]);
  }
  CopyWire CopyOf(uint32_t action) const { return copies.empty() ? CopyWire() : copies[action]; }
  absl::Span<const uint32_t> FurtherNeeds(uint32_t action) const {
    if (first_further_need.empty()) return {};
    return absl::MakeConstSpan(further_needs)
        .subspan(first_further_need[action],
                 first_further_need[action + 1] - first_further_need[action]);
  }
  // Visits the actions that it needs beside those of its wire: visit(action). Of a meeting those of
  // all its members.
  template <typename Visit>
  void ForFurtherWaits(uint32_t action, Visit visit) const {
    if (first_further_need.empty()) return;
    const int32_t meeting = meetings.Of(action);
    if (meeting < 0) {
      for (const uint32_t need : FurtherNeeds(action)) visit(need);
      return;
    }
    for (const uint32_t member : meetings.of(meeting)) {
      for (const uint32_t need : FurtherNeeds(member)) visit(need);
      for (const uint32_t before : {wires[member].before, CopyOf(member).freed}) {
        if (before != kNoAction) visit(before);
      }
    }
  }
  // The waits listed between the action and the computation before it.
  absl::Span<const ListedWait> WaitsBefore(uint32_t action) const {
    if (listed.empty()) return {};
    const ListedBefore& before = listed[action];
    return absl::MakeConstSpan(waits).subspan(before.first_wait,
                                              before.end_wait - before.first_wait);
  }
};

// `receive_buffers` bounds the received values that a rank holds unused; 0: no bound. A buffer is
// free again when the group that uses its value has ended; receives take buffers in list order.
// Cost: linear in actions, times the logarithm of the buffers.
Wiring WiringOf(const Plan& lowered, CommLayout layout, int receive_buffers = 0);

// The same if messages are issued in the order of each rank's list, with these waits, given in
// order.
Wiring WiringAsWritten(const Plan& lowered, CommLayout layout, int receive_buffers,
                       std::vector<ListedWait> waits);

}  // namespace stringline
