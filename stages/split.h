// From a stage's forward graph to its four programs.
//
//   joint   = forward + backward                                              (autodiff.h)
//   B       = the backward nodes needed by some output
//   I       = the dependencies of the in grad (first stage: of the gradient of the embedding's
//             output), and the eager gradients: those of norms, biases, and params marked eager
//   W       = the rest of B
//   saved   = forward values that B reads, params and the past aside
//   stash   = values of I, or of I's out grad, that W reads
//
// A node of W that reads a param would need the weights at W, and one that reads the past the keys
// of earlier slices: it moves into I, with its
// dependencies. A param gradient that I computes anyway is I's output. W has no collective.
//
// Then forward values are computed again instead of saved, if requested (recompute.h), and the
// programs are cut at their communication (cut.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/graph.h"
#include "stages/recompute.h"
#include "stages/stage_program.h"

namespace stringline {

// A model's description of a stage.
struct ForwardStage {
  bool first = false;
  bool last = false;
  std::vector<Param> params;
  // Inputs: param by index, input by index, on the last stage one target, of a later slice the
  // past. Outputs: first the outputs or the loss; then, in any order, auxiliary losses, dropped,
  // keys, and as kSaved the values at which recomputing begins anew (recompute.h), saved only if
  // some program needs them.
  Graph graph;
  SlicePlace slice = {};
  // By index of inputs and of outputs, without types. Empty: tokens first on a first stage, the
  // loss on a last one, and edge 0 for all else.
  std::vector<Crossing> inputs = {};
  std::vector<Crossing> outputs = {};
  int64_t first_target = 0;
};

// InvalidArgument if the forward graph has an op without a gradient rule, or a param on which the
// output does not depend.
absl::StatusOr<StageProgram> MakeStageProgram(const ForwardStage& stage,
                                              const StageRecompute& recompute = {});

// The stage without backwards: its forward gives its outputs and saves nothing, its other programs
// are empty. Parameters, inputs and outputs are the same, so it runs with the stage's parameters.
// The program has no dropout, as in torch after eval(). Slices hand keys on
// (StageProgram::hands_keys_on).
StageProgram WithoutBackwards(const StageProgram& program);

}  // namespace stringline
