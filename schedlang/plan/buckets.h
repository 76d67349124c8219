// Collectives inside computations. A stage's parameters are gathered, and its gradients reduced,
// bucket by bucket; a computation that is alone on its rank meets the buckets one by one: it starts
// when the first bucket of its parameters is there, and the first bucket of its gradients leaves
// while the others are being computed.
//
//   UNSHARD       the first computation of the stage behind it, if it is alone on its rank, meets
//                 the buckets; any other waits for all of them
//   REDUCE_GRAD   starts inside the computation listed before it, if that one gives the last of
//                 these gradients; otherwise behind it, as on a rank that adds up several replicas
//                 first
//
// A stage cut into layers of parts (parts.h) waits for whole gathers; its reductions start inside
// groups and chunks, too, where each bucket is there with a part: of n weight gradients and K
// buckets the k-th, from 1, with the k n / K-th, rounded up. Any other stage's computations must be
// alone on their rank, with whole microbatches; they take equally long for every bucket. The split
// of a time into so many buckets: all take the same, rounded down, and the first the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Wiring::meeters of a plan with these wires and reductions.
std::vector<uint32_t> MeetersOfBuckets(const Plan& plan, const Wiring& wiring);

// True for an action that is no part of a group, of a plan without chunks.
bool IsAlone(const Plan& plan, uint32_t i);

// The weight gradient, from 0, with which the bucket is there in a stage cut into layers of parts.
constexpr int64_t PartOfBucket(int64_t bucket, int64_t buckets, int64_t parts) {
  return ((bucket + 1) * parts + buckets - 1) / buckets - 1;
}

constexpr int64_t LaterBucketNs(int64_t all_ns, int64_t buckets) { return all_ns / buckets; }
constexpr int64_t FirstBucketNs(int64_t all_ns, int64_t buckets) {
  return all_ns - (buckets - 1) * LaterBucketNs(all_ns, buckets);
}

// The moment when the UNSHARD lets its first computation start. (Later ones start later anyway.)
constexpr int64_t GatheredNs(const Event& unshard) {
  return unshard.first_bucket_ns > 0 ? unshard.first_bucket_ns : unshard.end_ns;
}

}  // namespace stringline
