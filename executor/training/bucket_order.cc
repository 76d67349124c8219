#include "executor/training/bucket_order.h"

#include <algorithm>
#include <utility>

namespace stringline {

std::vector<BucketNode> GatheredBy(absl::Span<const Bucket> buckets, const ReadyGraph& program) {
  std::vector<BucketNode> order;
  for (size_t b = 0; b < buckets.size(); ++b) {
    order.push_back({static_cast<int>(b), program.FirstReadOf(Region::kWorking, buckets[b].read_at,
                                                              buckets[b].read.begin.back())});
  }
  const auto place = [&](const BucketNode& of) { return of.node < 0 ? program.nodes() : of.node; };
  std::sort(order.begin(), order.end(), [&](const BucketNode& a, const BucketNode& b) {
    return std::pair(place(a), a.bucket) < std::pair(place(b), b.bucket);
  });
  return order;
}

int ReadByPart(absl::Span<const Bucket> buckets, absl::Span<const int> order,
               const ReadyGraph& program, int part) {
  size_t first = order.size();
  const auto reads = [&](const Bucket& bucket) {
    return program.Reads(part, Region::kWorking, bucket.read_at, bucket.read.begin.back());
  };
  while (first > 0 && !reads(buckets[order[first - 1]])) --first;
  return static_cast<int>(first);
}

std::vector<int> ReduceOrder(absl::Span<const Bucket> buckets, absl::Span<const int> summed,
                             const ReadyGraph& backward) {
  std::vector<BucketNode> given = GivenBy(buckets, summed, backward);
  std::sort(given.begin(), given.end(), [](const BucketNode& a, const BucketNode& b) {
    return std::pair(a.node, a.bucket) < std::pair(b.node, b.bucket);
  });
  std::vector<int> order;
  for (const BucketNode& of : given) order.push_back(of.bucket);
  return order;
}

std::vector<BucketNode> GivenBy(absl::Span<const Bucket> buckets, absl::Span<const int> order,
                                const ReadyGraph& program) {
  std::vector<BucketNode> given;
  for (const int b : order) {
    given.push_back(
        {b, program.LastWriteOf(Region::kGrads, buckets[b].at, buckets[b].pieces.begin.back())});
  }
  return given;
}

std::vector<int> GivenByPart(absl::Span<const Bucket> buckets, absl::Span<const int> order,
                             const ReadyGraph& program, int part) {
  std::vector<int> given;
  for (size_t k = 0; k < order.size(); ++k) {
    const Bucket& bucket = buckets[order[k]];
    if (program.Writes(part, Region::kGrads, bucket.at, bucket.pieces.begin.back())) {
      given.push_back(static_cast<int>(k));
    }
  }
  return given;
}

std::vector<NodePiece> CutAtBuckets(int nodes, absl::Span<const BucketNode> needed,
                                    absl::Span<const BucketNode> given) {
  std::vector<bool> begins(static_cast<size_t>(nodes) + 1, false);  // by node: a piece begins here
  for (const BucketNode& of : needed) begins[std::max(of.node, 0)] = true;
  for (const BucketNode& of : given) begins[std::max(of.node, 0) + 1] = true;
  std::vector<NodePiece> pieces;
  for (int first = 0; first < nodes;) {
    NodePiece& piece = pieces.emplace_back();
    piece.first = first;
    piece.end = first + 1;
    while (piece.end < nodes && !begins[piece.end]) ++piece.end;
    for (size_t k = 0; k < needed.size(); ++k) {
      if (needed[k].node == first) piece.needs.push_back(static_cast<int>(k));
    }
    for (size_t k = 0; k < given.size(); ++k) {
      const int last = std::max(given[k].node, 0);
      if (first <= last && last < piece.end) piece.gives.push_back(static_cast<int>(k));
    }
    first = piece.end;
  }
  return pieces;
}

}  // namespace stringline
