// Collectives inside computations. A stage's parameters are gathered, and its gradients reduced,
// bucket by bucket; computations meet the buckets one by one: they start when the first bucket of
// their parameters is there, and the first bucket of their gradients leaves while the others are
// being computed.
//
//   UNSHARD       the first computation of the stage behind it meets the buckets, and so do the
//                 stage's others in its group; any later one starts later anyway
//   REDUCE_GRAD   starts inside the computation listed before it, if that one gives the last of
//                 these gradients; otherwise behind it, as on a rank that adds up several replicas
//                 first
//
// A stage cut into layers of parts (parts.h) meets buckets in groups and chunks, too, and part by
// part. Of the n parts of a forward or input gradient that compute, in their order, and K buckets
// the p-th part, from 1, needs the first p K / n, rounded up: the last part needs all of them.
// Parts on the network need none, nor do the weight gradients of a B; the parts of a W need all. A
// bucket of gradients is there with a part: of n weight gradients the k-th bucket, from 1, with the
// k n / K-th, rounded up.
//
// Any other stage's computations must be alone on their rank, with whole microbatches; they take
// equally long for every bucket. The split of a time into so many buckets: all take the same,
// rounded down, and the first the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Wiring::meeters of a plan with these wires and reductions.
std::vector<uint32_t> MeetersOfBuckets(const Plan& plan, const Wiring& wiring);

// True for an action that is no part of a group, of a plan without chunks.
bool IsAlone(const Plan& plan, uint32_t i);

// The UNSHARD of the stage of plan.actions[i], a computation, if the computation's group is the one
// that meets its buckets; or kNoAction.
uint32_t GatherMetBy(const Plan& plan, const Wiring& wiring, uint32_t i);

// The place, from 0, of a part on the compute lane among those of its F, I or W, in their order, of
// a stage cut into so many layers.
int64_t PlaceOf(LayerPart part, int64_t layers);

// The buckets of parameters, the first ones, that must be there when a part of an action of the
// kind starts, in a stage cut into so many layers.
int64_t BucketsNeeded(ActionKind kind, LayerPart part, int64_t layers, int64_t buckets);

// The weight gradient, from 0, with which the bucket is there in a stage cut into layers of parts.
constexpr int64_t PartOfBucket(int64_t bucket, int64_t buckets, int64_t parts) {
  return ((bucket + 1) * parts + buckets - 1) / buckets - 1;
}

constexpr int64_t LaterBucketNs(int64_t all_ns, int64_t buckets) { return all_ns / buckets; }
constexpr int64_t FirstBucketNs(int64_t all_ns, int64_t buckets) {
  return all_ns - (buckets - 1) * LaterBucketNs(all_ns, buckets);
}

// The moment when the UNSHARD lets its first computation start.
constexpr int64_t GatheredNs(const Event& unshard) {
  return unshard.first_bucket_ns > 0 ? unshard.first_bucket_ns : unshard.end_ns;
}

}  // namespace stringline
