// How a run shares out the state of its data copies (schedlang/sharding.h): over how many of them,
// and in which buckets. With replicas of shards others call it HSDP.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "executor/mesh.h"
#include "schedlang/sharding.h"

namespace stringline {

// Bytes of gradients that a reduction takes at most, if nobody says otherwise.
inline constexpr int64_t kBucketBytes = int64_t{25} << 20;

// How a run shares out its state: over so many members, in pieces of buckets of so many bytes.
struct StateSharing {
  StateSharing() = default;
  // Where a shard group has one member, nothing is shared out.
  StateSharing(Sharding wish, const Mesh& mesh, int64_t bytes)
      : sharding(mesh.shards() > 1 ? wish : Sharding::kNone),
        shards(sharding == Sharding::kNone ? 1 : mesh.shards()),
        bucket_bytes(bytes) {}

  Sharding sharding = Sharding::kNone;
  int shards = 1;
  int64_t bucket_bytes = kBucketBytes;
};

// Fills in mesh->shard from the number of replicas (0: not said). InvalidArgument where the numbers
// do not fit each other, or where they say something although nothing is shared out.
absl::Status CompleteMesh(Sharding sharding, int replicate, Mesh* mesh);

}  // namespace stringline
