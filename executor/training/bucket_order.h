// The meeting of a stage's programs with the buckets of its parameters (schedlang/plan/buckets.h):
// the order in which buckets are gathered and reduced, and a program cut into pieces at them.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "executor/training/ready_graph.h"
#include "executor/training/state_pieces.h"

namespace stringline {

// A bucket, and the node of a program that needs or gives it; -1: none does.
struct BucketNode {
  int bucket = 0;
  int node = -1;
};

// All buckets in the order in which the program first reads their gathered parameters; those that
// nothing reads come last.
std::vector<BucketNode> GatheredBy(absl::Span<const Bucket> buckets, const ReadyGraph& program);
// The number of first buckets in their order that hold all parameters which a part of the program
// reads.
int ReadByPart(absl::Span<const Bucket> buckets, absl::Span<const int> order,
               const ReadyGraph& program, int part);

// The summed buckets in the order in which `backward`, the stage's whole backward, gives their
// gradients, so that all copies do alike.
std::vector<int> ReduceOrder(absl::Span<const Bucket> buckets, absl::Span<const int> summed,
                             const ReadyGraph& backward);
// The same buckets with the last node of the program that adds to each.
std::vector<BucketNode> GivenBy(absl::Span<const Bucket> buckets, absl::Span<const int> order,
                                const ReadyGraph& program);
// The places in the order of the buckets to which a part of the program adds.
std::vector<int> GivenByPart(absl::Span<const Bucket> buckets, absl::Span<const int> order,
                             const ReadyGraph& program, int part);

// Nodes of a program, from `first` to before `end`, which need and give buckets: their places in
// the orders above.
struct NodePiece {
  int first = 0, end = 0;
  std::vector<int> needs, gives;
};
// The program's nodes in pieces: each waits for no bucket that only later nodes need, and the last
// gradients of a bucket are at a piece's end.
std::vector<NodePiece> CutAtBuckets(int nodes, absl::Span<const BucketNode> needed,
                                    absl::Span<const BucketNode> given);

}  // namespace stringline
