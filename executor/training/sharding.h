// The settings for sharding state over data copies (schedlang/plan/sharding.h): the number of
// shards and the bucket size. Shards with replicas are known elsewhere as HSDP.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "executor/engine/mesh.h"
#include "schedlang/plan/sharding.h"

namespace stringline {

// Default bound on the bytes of gradients in a reduction.
inline constexpr int64_t kBucketBytes = int64_t{25} << 20;

// The sharding of a run: the number of members, and the size of a bucket in bytes.
struct StateSharing {
  StateSharing() = default;
  // A shard group of a single member turns sharding off.
  StateSharing(Sharding wish, const Mesh& mesh, int64_t bytes)
      : sharding(mesh.shards() > 1 ? wish : Sharding::kNone),
        shards(sharding == Sharding::kNone ? 1 : mesh.shards()),
        bucket_bytes(bytes) {}

  Sharding sharding = Sharding::kNone;
  int shards = 1;
  int64_t bucket_bytes = kBucketBytes;
};

// Fills in mesh->shard from the number of replicas (0: unspecified). InvalidArgument if the numbers
// do not divide, or if they are given without sharding.
absl::Status CompleteMesh(Sharding sharding, int replicate, Mesh* mesh);

}  // namespace stringline
