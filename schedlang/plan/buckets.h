// Collectives inside computations. A stage's parameters are gathered, and its gradients reduced,
// bucket by bucket; a computation that is alone on its rank meets the buckets one by one: it starts
// when the first bucket of its parameters is there, and the first bucket of its gradients leaves
// while the others are being computed.
//
//   UNSHARD       the first computation of the stage behind it, if it is alone on its rank, meets
//                 the buckets; any other waits for all of them
//   REDUCE_GRAD   starts inside the computation listed before it, if that one is alone on its rank
//                 and gives the last of these gradients; otherwise behind it, as on a rank that
//                 adds up several replicas first
//
// A microbatch in chunks (Plan::chunks), and a stage cut into layers of parts, wait for whole
// collectives. The split of a time into so many buckets: all take the same, rounded down, and the
// first the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// By collective of a plan with these wires, the computation that may meet its buckets, or
// kNoAction. Empty for a plan without collectives.
std::vector<uint32_t> MeetersOfBuckets(const Plan& plan, const Wiring& wiring);

constexpr int64_t LaterBucketNs(int64_t all_ns, int64_t buckets) { return all_ns / buckets; }
constexpr int64_t FirstBucketNs(int64_t all_ns, int64_t buckets) {
  return all_ns - (buckets - 1) * LaterBucketNs(all_ns, buckets);
}

// The moment when the UNSHARD lets its first computation start. (Later ones start later anyway.)
constexpr int64_t GatheredNs(const Event& unshard) {
  return unshard.first_bucket_ns > 0 ? unshard.first_bucket_ns : unshard.end_ns;
}

}  // namespace stringline
