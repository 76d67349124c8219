// The sizes in a graph that grow with its microbatch, so that a graph with sizes among its
// attributes can be repeated for another number of sequences.
//
// A value holds the sequences side by side along one dimension, which may hold more besides: after
// a reshape, sequences times heads, or positions times sequences. Ops that mix sequences have no
// such dimension.
#pragma once

#include <optional>
#include <vector>

#include "stages/graph.h"

namespace stringline {

// By node, the index of the attribute that is a multiple of the number of sequences, or -1. Nothing
// if an op mixes the sequences, or counts them. The graph's tokens are (sequences, positions).
std::optional<std::vector<int>> SizesOfBatch(const Graph& graph);

}  // namespace stringline
