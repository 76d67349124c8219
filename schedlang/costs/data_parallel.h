// Collectives of a pipeline's copies: which ranks share a stage's parameters, and how long they
// take to gather them and to reduce their gradients.
//
// Rank r of a pipeline of P is rank c P + r of the mesh on coordinate c = d X + x: data index d of
// D, expert index x of X. The data index is k S + i: share i of S (`shard`) in replica k. Ranks of
// the mesh fill nodes in this order, `node.ranks` each (tensor-parallel ones side by side).
//
//   everything but experts  every coordinate has it: D X copies
//   experts                 the D coordinates with the same x have the same ones
//   shares                  S coordinates, k S .. k S + S - 1, share state out; D / S replicas of
//                           each share, of everything but experts X times as many (HSDP)
//
// Where pipes hold replicas of a stage (Plan::pipes), their ranks are copies, too.
//
// Megatron's layout (`mesh: {layout: megatron}`; Megatron-LM, parallel_state.py, its default order
// tp-cp-ep-dp-pp) puts neighbours in the pipeline furthest apart: rank t of T tensor-parallel ones,
// of place s of S that share a sequence, of copy d of D, at stage rank r, is ((r D + d) S + s) T +
// t. Experts are whole on the ranks, each `expert` of the T S D consecutive ones have all of them,
// and state is shared out over all copies of it: S D for what is not of experts, T S D / `expert`
// for experts. Its distributed optimizer (`sharding: optimizer`) scatters gradients, too. Groups
// are taken to begin where nodes do. Where a node has more than one rank of a group, each of them
// has a port: a ring between nodes has min(w inside, ranks in the node times w between). A slow
// link between two GPUs slows the rings in which they are neighbours, in one node or at the same
// place of neighbouring nodes, and by its part of the bytes the exchange of experts' rows between
// them.
//
// The times are those of a ring of n ranks, which passes n - 1 times B / n bytes on:
//
//   gather, reduce-scatter  (n - 1) (l + B / (n w))
//   all-reduce              both after each other: twice the time
//
// with latency l and bandwidth w of the slowest link in the ring: the link inside a node if
// all n are on one node, or else between nodes. Thakur, Rabenseifner, Gropp: Optimization of
// Collective Communication Operations in MPICH (2005) has the formulas; (n - 1) / n and
// 2 (n - 1) / n are also the factors of "bus bandwidth" in NCCL's tests (doc/PERFORMANCE.md). Every
// rank has links of its own, additions take no time, and computation is not slowed meanwhile.
// Algorithms with more than a ring (trees, one ring a network port) are faster where many ranks
// wait for latencies, or share several ports of a node.
//
// The data moved, by `sharding`:
//
//   none, optimizer        REDUCE_GRAD is an all-reduce over all copies
//   gradients, parameters  REDUCE_GRAD is a reduce-scatter over the shares, and then for each share
//                          an all-reduce over its replicas
//   parameters             UNSHARD is a gather over the shares
//   optimizer, gradients   after the step, updated parameters are gathered over the shares. The
//                          optimizer is not part of a simulated step, and so neither is this.
//
// Gradients are fp32, and reduced in buckets, one after the other: each waits for the latencies
// again. The parameters of a bucket are gathered in one call, too, in the working type. Buckets lie
// beside the computations that need and give them (plan/buckets.h).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedlang/costs/formula.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/sharding.h"

namespace stringline {

struct RingLink {
  int64_t latency_ns = 0;
  int64_t bandwidth = 0;  // bytes a second; 0: bytes take no time
};

// A gather or a reduce-scatter of so many bytes in all, over so many ranks, in so many calls.
double RingNs(int64_t bytes, int64_t calls, int64_t ranks, const RingLink& link);

// The links between two ranks of the mesh.
struct MeshLinks {
  RingLink between;                 // nodes
  RingLink inside;                  // a node
  int64_t node_ranks = 0;           // 0: no nodes, every link is `between`
  std::vector<SlowPair> slow = {};  // in Megatron's layout
};

struct CollectiveTimes {
  int64_t gather_ns = 0;  // an UNSHARD's
  int64_t reduce_ns = 0;  // a REDUCE_GRAD's
  int64_t update_ns = 0;  // gathering updated parameters, after the optimizer's step
  int64_t buckets = 1;    // in which the first two come
};

// The times of the stage, whose `part` the formula has counted. `model` has passed ResolveMesh.
CollectiveTimes TimesOfCollectives(const Plan& plan, StageId stage, const ModelShape& model,
                                   Sharding sharding, const StageFormula& part,
                                   const MeshLinks& links);

// True if stages are gathered and scattered layer by layer, by every microbatch: a rank holds the
// parameters and gradients of the layer at work and of the next (Megatron's layout).
bool IsByLayer(const ModelShape& model, Sharding sharding);

// The time by which a microbatch's F and I are longer then: what of a gather does not fit beside F,
// and what of a gather and a reduction does not fit beside I and W.
struct MicrobatchWaits {
  int64_t forward_ns = 0, back_ns = 0;
};
MicrobatchWaits WaitsOf(const CollectiveTimes& times, const StageFormula& part);

// The links of collectives inside the stage's layers, on the slowest coordinate of the mesh: among
// the tensor-parallel ranks of one coordinate, and among those that share out experts.
struct LayerLinks {
  RingLink tensor;
  RingLink experts;
  // The rest is Megatron's: links among the ranks that share sequences, the links of one node, and
  // how many of the ranks that share out experts are on one.
  RingLink sequence;
  RingLink inside;
  int64_t experts_near = 1;
};
LayerLinks LinksOfLayers(const Plan& plan, StageId stage, const ModelShape& model,
                         const MeshLinks& links);

// Over how many ranks the state of a stage's parameters is shared out: of its experts, or of all
// others.
int64_t SharesOf(const ModelShape& model, bool experts);

// The number of copies of a stage's parameters on the mesh, and with those of pipes.
int64_t CopiesOf(const ModelShape& model);
int64_t CopiesOf(const Plan& plan, StageId stage, const ModelShape& model);

// The nodes between which a message of two ranks of the pipeline goes, on the first coordinate
// where those are two (at any place of tensor-parallel ranks): a message is as slow as on the
// slowest coordinate. Nothing: the ranks share a node on all of them.
std::optional<std::pair<int64_t, int64_t>> NodesApart(const Plan& plan, RankId from, RankId to,
                                                      const ModelShape& model, int64_t node_ranks);

}  // namespace stringline
