// From a stage's forward graph to its four programs.
//
//   joint   = forward + backward                                              (autodiff.h)
//   B       = the backward nodes that some output needs
//   I       = what the in grad is computed from (first stage: the gradient of the embedding's
//             output), and the eager gradients: those of norms, biases, and params marked eager
//   W       = the rest of B
//   saved   = forward values that B reads, params aside
//   stash   = what W reads of I's values, or of I's out grad
//
// A node of W that reads a param would need the weights at W: it moves into I, with what it needs.
// A param gradient that I computes anyway is I's output. W has no collective.
//
// Then forward values are computed again instead of saved, if so wished (recompute.h), and the
// programs are cut where they communicate (cut.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/graph.h"
#include "stages/recompute.h"
#include "stages/stage_program.h"

namespace stringline {

// What a model says of one stage.
struct ForwardStage {
  bool first = false;
  bool last = false;
  std::vector<Param> params;
  // Inputs: param by index, one input, on the last stage one target. Outputs: first one output or
  // loss; then, in any order, auxiliary losses, dropped, and as kSaved the values at which
  // recomputing begins anew (recompute.h), which are saved only if some program needs them.
  Graph graph;
};

// InvalidArgument if the forward graph has an op without a gradient rule, or a param on which the
// output does not depend.
absl::StatusOr<StageProgram> MakeStageProgram(const ForwardStage& stage,
                                              const RecomputePolicy& recompute = {});

}  // namespace stringline
