// The ways of a model's values through its stages.
//
// A model is a list of parts: the embedding, the layers, and the head with its loss. A value that
// one part makes and later parts read goes straight to each stage that reads it if an edge joins
// the two; otherwise over the fewest edges, through stages that hand it on.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// A value that goes from part to part. Part 0 is the embedding.
struct PartValue {
  int id = 0;
  int made_in = 0;
  std::vector<int> read_in;  // later parts
};

struct StageEdge {
  int from = 0;
  int to = 0;
};

// The values that enter and leave a stage, in the order of its program's inputs and outputs: those
// of an edge are together, and edges are in the order of their other ends.
struct StageRoutes {
  struct Crossing {
    int id;    // PartValue::id
    int edge;  // among those that lead to the stage, or leave it
  };
  std::vector<Crossing> in, out;
};

// The values of a model whose layers stand in a row, each reading what the one before made: the id
// of a value is the part that makes it.
std::vector<PartValue> ValuesInARow(int layers);

// By stage. `stage_of`: by part, ascending. `edges`: empty if every stage leads to the next one;
// each leads to a higher stage. InvalidArgument if no edges lead from a value's stage to a
// reader's, or nothing goes over an edge.
absl::StatusOr<std::vector<StageRoutes>> RouteValues(const std::vector<PartValue>& values,
                                                     const std::vector<int>& stage_of, int stages,
                                                     std::vector<StageEdge> edges);

}  // namespace stringline
