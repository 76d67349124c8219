// The order in which Megatron-LM issues a step: the computations of every rank, its sends and
// receives with their batches, and its waits (Megatron Core 0.16 to 0.19,
// pipeline_parallel/schedules.py and p2p_communication.py).
//
//   no pipelining   one rank: F and B in turns, or combined
//   1F1B            no chunks; messages with a neighbour wait for each other
//   interleaved     V chunks a rank, chunk c of rank r is stage c P + r; groups of G microbatches
//
// Batched messages are calls on the group's communicator, each waited for at once. Unbatched ones
// are calls on a communicator for two ranks, which torch makes at its first call; of two ranks, one
// for each direction, since Megatron puts one of them into the group of all ranks.
#pragma once

#include "schedlang/plan/plan_file.h"

namespace stringline {

struct MegatronOrder {
  int ranks = 1;
  int chunks = 0;  // of a rank; 0: not interleaved
  int microbatches = 1;
  int group = 1;                 // microbatches that a chunk does in a row, where interleaved
  bool overlaps_p2p = false;     // steady messages are waited for when their values are needed
  bool overlaps_flush = false;   // those of warm-up and cool-down, too
  bool batches_p2p = true;       // messages issued together are one call
  bool combines = false;         // a forward and a backward side by side: overlapped experts
  bool early_attention = false;  // there the attention's backward comes before the experts' F
};

// The plan, lowered, without its split. Stages and microbatches are at least as many as Megatron
// asks for (arguments.h).
PlanFile IssuedOrder(const MegatronOrder& order);

}  // namespace stringline
