// Recompute: forward values that a backward computes again instead of keeping them from F.
//
// Memory against time. What is kept instead is what those values are computed from: what goes into
// a compute part of the forward, and the values at which recomputing begins anew: those of kSaved
// ports of the model's forward graph, the layers' inputs. Behind the last of them nothing is
// computed again: not the head and not the loss. What collectives, `route` and `dispatch_plan` give
// is always kept, so a backward communicates no more than before and sends each row where the
// forward sent it.
//
// A BF16 value that is widened is so again whatever was chosen: to keep it would take more than to
// keep what it is made of.
//
// The same nodes on the same values: gradients do not change by a bit.
#pragma once

#include <vector>

#include "stages/autodiff.h"
#include "stages/graph.h"

namespace stringline {

// Of which compute parts of the forward (cut.h).
enum class Recompute : uint8_t {
  kNone,
  kAttn,     // those outside the experts: attention, norms, dense and shared MLPs
  kExperts,  // those between a dispatch and its combine
  kAll,
};

struct RecomputePolicy {
  Recompute what = Recompute::kNone;
  // What W needs of it, W computes itself, a second time, and reads params for it; otherwise I
  // hands it on.
  bool for_weights = false;
  // Of each stage, in place of `what`; empty: all stages do the same.
  std::vector<Recompute> by_stage = {};

  Recompute Of(size_t stage) const { return by_stage.empty() ? what : by_stage[stage]; }
};

// By node of a model's forward graph: is what it gives computed again?
std::vector<bool> ComputedAgain(const Graph& forward, Recompute what);

// A joint graph whose backward nodes belong to one of two programs.
struct Halved {
  Joint joint;               // its nodes behind the forward's: B's
  std::vector<bool> weight;  // by node: W's, otherwise I's (or the forward's)
};

// The same backward, reading copies of the forward nodes that are computed `again`: each copy
// stands before its first reader and is I's; with `for_weights` W has its own of all it reads.
Halved ComputeAgain(const Halved& halved, const std::vector<bool>& again, bool for_weights);

}  // namespace stringline
