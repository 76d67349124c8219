// Cuts a graph where it communicates: an order of its nodes in which compute parts and network
// parts alternate.
//
//   compute 0, network 0, compute 1, network 1, ..., compute n
//
// The depth of a value is the largest number of cutting collectives (IsCut) on any path to it from
// what comes into the graph. Network part d has all collectives that read values of depth d, those
// that cut and the exchanges of counts that go before them. A compute node stands in the first part
// in which all it reads is there: so what waits for no network, such as a shared expert's backward,
// is done first and leaves the network time.
//
// The other way round with what depends on nothing that comes in, but on params and saved values
// alone (the forward computed again, and constants): it stands in the last part that is early
// enough for whoever reads it, so that it takes no memory before. What nobody in the graph reads
// stands with what it reads itself, otherwise in the last part.
//
// What comes in is the input, the out grad, or the stash; for the backward of a last stage the
// gradient of the cross-entropy. Within a part nodes keep their order,
// so a graph without collectives stays as it is. The parts are the same on all ranks, since they
// depend on the graph alone: collectives are called in the same order everywhere.
#pragma once

#include <vector>

#include "stages/graph.h"
#include "stages/stage_program.h"

namespace stringline {

struct Cut {
  Graph graph;  // canonical, the same nodes and ports
  std::vector<GraphPart> parts;
  // By value of `graph`: the first compute part that can read it; -1 where only params and saved
  // values are behind it.
  std::vector<int> there_from;
};

Cut CutAtCollectives(const Graph& graph);

// By node: the d of its compute or network part.
std::vector<int> PartsOf(const Graph& graph);

// The weight gradient beside the input gradient: it has no collectives, and as many parts as the
// other has compute parts, each with what can be done once that one is through. `stash[k]`: the
// part that gives stash k. No part reads what another makes, so that a schedule may run them in any
// order: what several need each computes for itself.
Cut CutAlong(const Graph& weight_gradient, const std::vector<int>& stash, int compute_parts);

}  // namespace stringline
