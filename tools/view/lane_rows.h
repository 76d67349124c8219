// A timeline with a row for each lane instead of each rank: what a rank computes, part by part, and
// below it what else takes time and may be what it waits for: its all-to-alls, the messages on
// their way to it, its collectives. For pictures that are drawn row by row.
#pragma once

#include <string>
#include <vector>

#include "schedlang/timeline.h"

namespace stringline {

enum class LaneKind : uint8_t { kCompute, kNetwork, kActivations, kGradients, kCollectives };

struct LaneRows {
  // Row r is what a picture calls rank r. Its events are computations, whatever they are of, by
  // start, and no two of a row below a rank's computation overlap.
  //
  //   compute, network   parts as events of their own in the kind of their action (a W part of a B:
  //                      W), and groups that have no parts as they are
  //   activations        messages that arrive, as F; from when one leaves, or the one before it has
  //                      arrived, until it arrives
  //   gradients          the same, as B, or as I where no gradient is a B's
  //   collectives        UNSHARD as F, RESHARD as I, REDUCE_GRAD as W; the stage stands in place of
  //                      the microbatch
  Timeline timeline;
  std::vector<std::string> names;  // by row: "rank 3", "network"
  std::vector<LaneKind> kinds;     // by row
  std::vector<int> ranks;          // by row: whose it is
};

// A rank has a row for its computation, one for the network where parts are known, and each of the
// others where something in it takes time.
LaneRows RowsByLane(const Timeline& timeline);

// Whether any rank has another row than that of its computation.
bool HasLanes(const Timeline& timeline);

// "U2": what a computation that stands for a collective begins with.
char LetterOfCollective(ActionKind stand_in);

}  // namespace stringline
