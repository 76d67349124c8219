#include "executor/training/sharding.h"

#include "absl/strings/str_cat.h"

namespace stringline {

absl::Status CompleteMesh(Sharding sharding, int replicate, Mesh* mesh) {
  if (mesh->shard == 0 && replicate == 0) return absl::OkStatus();
  if (sharding == Sharding::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(mesh->shard > 0 ? "mesh.shard" : "mesh.replicate",
                     ": nothing is shared out; 'sharding: optimizer', gradients or parameters "
                     "would"));
  }
  if (mesh->shard > 0 && replicate > 0 && mesh->shard * replicate != mesh->data) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh.replicate: ", replicate, " times mesh.shard, ", mesh->shard, ", is ",
                     mesh->shard * replicate, ", but mesh.data is ", mesh->data));
  }
  const int divisor = mesh->shard > 0 ? mesh->shard : replicate;
  if (mesh->data % divisor != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(mesh->shard > 0 ? "mesh.shard" : "mesh.replicate", ": ", divisor,
                     " does not divide mesh.data, ", mesh->data));
  }
  if (mesh->shard == 0) mesh->shard = mesh->data / replicate;
  return absl::OkStatus();
}

}  // namespace stringline
