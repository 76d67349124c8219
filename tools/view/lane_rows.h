// A timeline with a row for each lane instead of each rank: a rank's computation, part by part, and
// below the lanes for which it may wait: its all-to-alls, the messages on their way to the rank,
// its collectives, its copies to and from the host. For pictures that are drawn row by row.
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"

namespace stringline {

enum class LaneKind : uint8_t {
  kCompute,
  kNetwork,
  kActivations,
  kGradients,
  kCollectives,
  kOwn,
  kToHost,
  kFromHost,
};

// True for the lanes of copies.
constexpr bool IsOfCopies(LaneKind lane) { return lane >= LaneKind::kToHost; }
// True for lanes in colours of their own, not those of the computations that stand for events.
constexpr bool HasOwnColors(LaneKind lane) {
  return lane >= LaneKind::kCollectives && lane != LaneKind::kOwn;
}

struct LaneRows {
  // In a picture row r takes the place of rank r. All its events have kinds of computations,
  // whatever they stand for, sorted by start; events of a row below a rank's computation do not
  // overlap.
  //
  //   compute, network   parts as events of their own in the kind of their action (a W part of a B:
  //                      W), and groups without parts as they are
  //   activations        messages that arrive, as F; from departure, or the arrival of the message
  //                      before, until arrival
  //   gradients          the same, as B, or as I if no gradient is a B's
  //   collectives        UNSHARD as F, RESHARD as I, REDUCE_GRAD as W; the stage stands in place of
  //                      the microbatch
  //   own                a schedule's own actions on the network, as its own computations
  //   to host            D as F; own copies as own computations, and the row is "copies out"
  //   from host          U as F; the same, "copies in"
  Timeline timeline;
  std::vector<std::string> names;  // by row: "rank 3", "network"
  std::vector<LaneKind> kinds;     // by row
  std::vector<int> ranks;          // by row: its rank
};

// A rank has a row for its computation, a row for the network if parts are known, and each of the
// other rows if an event in it takes time.
LaneRows RowsByLane(const Timeline& timeline);

// True if any rank has a row beside its computation's.
bool HasLanes(const Timeline& timeline);

// "U2": the first letter of a computation that stands for a collective.
char LetterOfCollective(ActionKind stand_in);

// The kind of action that a row's event is drawn as: D or U in the lanes of copies, the own action
// in the lane of those, elsewhere its own.
ActionKind DrawnKind(LaneKind lane, ActionKind stand_in);

}  // namespace stringline
