// Recompute: forward values that a backward computes again instead of keeping them from F.
//
// Memory against time. The kept values are the sources of the recomputed ones: inputs of compute
// parts of the forward, and the layers' inputs (kSaved ports of the model's forward graph), where
// recomputing begins anew. Nothing behind the last of them is computed again: neither the head nor
// the loss. Results of collectives, `route` and `dispatch_plan` are always kept, so a backward
// communicates no more than before and sends each row to the forward's rank.
//
// A widened BF16 value is always widened again: keeping it would take more memory than keeping its
// source.
//
// The copies are part of B, or of I (and W), or a program of their own, R (StageProgram::remakes).
//
// The same nodes on the same values: gradients do not change by a bit.
#pragma once

#include <vector>

#include "stages/autodiff.h"
#include "stages/graph.h"

namespace stringline {

// The compute parts of the forward (cut.h) to recompute.
enum class Recompute : uint8_t {
  kNone,
  kAttn,     // outside the experts: attention, norms, dense and shared MLPs
  kExperts,  // between a dispatch and its combine
  kAll,
  kScheduled,  // in a policy: all in the stages that the schedule names, nothing in others
};

// The values that a stage recomputes, and the program that does.
struct StageRecompute {
  Recompute what = Recompute::kNone;
  // W computes its own needs a second time, and reads params for them; otherwise I hands them on.
  // Not beside `remakes`.
  bool for_weights = false;
  bool remakes = false;  // in R
};

struct RecomputePolicy {
  Recompute what = Recompute::kNone;
  bool for_weights = false;
  // By stage, in place of `what`; empty: all stages do the same.
  std::vector<Recompute> by_stage = {};
  std::vector<bool> remakes = {};  // by stage; empty: none does

  // Not for kScheduled.
  StageRecompute Of(size_t stage) const {
    return {by_stage.empty() ? what : by_stage[stage], for_weights,
            !remakes.empty() && remakes[stage]};
  }
};

// By node of a model's forward graph: true if its results are computed again.
std::vector<bool> ComputedAgain(const Graph& forward, Recompute what);

// A joint graph whose backward nodes belong to one of two programs.
struct Halved {
  Joint joint;               // its nodes behind the forward's: B's
  std::vector<bool> weight;  // by node: W's, otherwise I's (or the forward's)
};

// The same backward, reading copies of the forward nodes that are computed `again`: each copy
// stands before its first reader and is I's; with `for_weights` W has its own copies of all it
// reads.
Halved ComputeAgain(const Halved& halved, const std::vector<bool>& again, bool for_weights);

}  // namespace stringline
