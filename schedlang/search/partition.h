// The number of the model's layers in each stage, found together with the orders: for models whose
// layers differ, a partition is worth more than the order (AdaPtis, 2509.23722).
//
// Layers stay in their order, so a partition is a count for each stage. Orders remain valid when a
// layer goes to another stage: only times and bytes change. So partitions near the best are first
// tried with the present orders, and then with new ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/search/held_area.h"
#include "schedlang/search/search.h"

namespace stringline::search {

// Layers to be shared out over stages with given ranks.
struct Partitioning {
  Partition fixed;  // given by the schedule; empty: to be found
  int layers = 0;
  int stages = 0;         // in a pipe
  int least_at_ends = 1;  // layers of the first and the last stage; the others have at least one
  // The problem for a partition. All have the same stages on the same ranks, and a stage with more
  // layers takes no less time.
  std::function<Problem(absl::Span<const int> partition)> problem_of;
  // If stages may choose whether they recompute: the problem for a choice, too. Then problem_of is
  // the one in which all do, and holds the least.
  std::function<Problem(absl::Span<const int> partition, const Recomputes& recomputes)>
      problem_with;
  // A lower bound on the computation in every partition, in indivisible pieces: of each layer, and
  // of the additional work of the ends.
  std::vector<int64_t> pieces;
  // Layers and ends with what their microbatches hold, and the room of all ranks together; empty:
  // not known.
  std::vector<HeldWork> held;
  Area capacity = 0;
  // True if stages of problem_of recompute and others of the same layers need not.
  bool backs_may_be_shorter = false;
  // A hash of all inputs of problem_of.
  uint64_t key = 0;
};

// True if the partition shares out all layers as allowed.
bool IsPartition(const Partitioning& of, const Partition& partition);

// As equal as the number of layers allows; the first stages have the surplus.
Partition EvenPartition(int layers, int stages);

// The partition with the fastest slowest stage; `work` is that of each layer. The number of stages
// is at most that of layers. Cost: stages times the square of layers.
Partition LeastSlowestStage(absl::Span<const int64_t> work, int stages);

// A partition in which the busiest rank has as little work as moves of single layers achieve, and
// no rank exceeds its capacity, if possible.
Partition BalancedPartition(const Partitioning& partitioning);

// The partition with its orders; the bound is that of all partitions. Goes on from `begin`, if it
// has a partition. Without words if no tried partition has an order.
Found FindPartition(const Partitioning& partitioning, Found begin, const Effort& effort);

// The least load of the busiest rank over all assignments of the pieces to ranks; a smaller bound
// if very many sizes differ. Cost: some thousand steps a piece.
int64_t LeastBusiest(absl::Span<const int64_t> pieces, int ranks);

// A lower bound on the orders of all partitions: the pieces of the busiest rank; the total
// computation and the ranks' waits for their first microbatch, with what must be recomputed so that
// all fits. For few partitions, the least of their own bounds.
int64_t BoundOfPartitions(const Partitioning& partitioning);

// The best of several places, each with a partitioning of its own.
Found FindPlace(absl::Span<const Partitioning> places, const Effort& effort);

}  // namespace stringline::search
