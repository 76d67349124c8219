// Cuts a graph at its communication: an order of its nodes in which compute parts and network parts
// alternate.
//
//   compute 0, network 0, compute 1, network 1, ..., compute n
//
// The depth of a value is the largest number of cutting collectives (IsCut) on any path from the
// incoming values. Network part d has all collectives that read values of depth d: the cutting ones
// and the exchanges of counts before them. A compute node stands in the first part in which all its
// inputs are available: so work that waits for no network, such as a shared expert's backward, is
// done first and gives the network time.
//
// Nodes that depend on params and saved values alone, not on incoming values (the forward computed
// again, and constants), are placed from the back: in the last part early enough for their readers,
// so that they take no memory before. If nothing in the graph reads them, they stand with their
// inputs, otherwise in the last part.
//
// Incoming values are the input, the out grad, or the stash; for the backward of a last stage the
// gradient of the cross-entropy. Within a part nodes keep their order, so a graph without
// collectives is unchanged. The parts are the same on all ranks, since they depend on the graph
// alone: collectives are called in the same order everywhere.
#pragma once

#include <vector>

#include "stages/graph.h"
#include "stages/stage_program.h"

namespace stringline {

struct Cut {
  Graph graph;  // canonical, the same nodes and ports
  std::vector<GraphPart> parts;
  // By value of `graph`: the first compute part that can read it; -1 for values computed from
  // params and saved values alone.
  std::vector<int> there_from;
};

Cut CutAtCollectives(const Graph& graph);

// By node: the d of its compute or network part.
std::vector<int> PartsOf(const Graph& graph);

// The weight gradient beside the input gradient: it has no collectives, and a part for each compute
// part of the input gradient, with the work possible once that part is done. `stash[k]`: the part
// that gives stash k. No part reads another's results, so a schedule may run them in any order:
// each computes shared values for itself.
Cut CutAlong(const Graph& weight_gradient, const std::vector<int>& stash, int compute_parts);

}  // namespace stringline
