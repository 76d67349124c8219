// What a model needs at least, whatever the plan: known from two small models of its width, before
// anything of its size is made.
#pragma once

#include "absl/status/statusor.h"
#include "executor/available_memory.h"
#include "executor/mesh.h"
#include "executor/sharding.h"
#include "stages/models/model.h"

namespace stringline {

// `pipes` hold the whole model each, on every coordinate of the mesh, but for experts that the
// coordinates share out, and for what shard groups do. The parameters are exact where all layers
// are alike; of the activations it counts what one microbatch leaves in all layers, which is there
// when the last stage begins its backward. Where the first layers are dense ones, all are counted
// as the smaller kind. Errors: those of CheckShape and of the mesh.
absl::StatusOr<NeededMemory> LeastMemory(const AnyShape& shape, int pipes, const Mesh& mesh = {},
                                         const StateSharing& sharing = {});

}  // namespace stringline
