// A lower bound on a model's memory under any plan, computed from two small models of its width
// before anything of its size is allocated.
#pragma once

#include "absl/status/statusor.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/mesh.h"
#include "executor/training/sharding.h"
#include "stages/models/model.h"

namespace stringline {

// Each of `pipes` pipelines holds the whole model on every coordinate of the mesh, except experts
// divided among the coordinates and state divided in shard groups. Parameters are exact if all
// layers are alike; activations are those of a single microbatch in all layers, which are live when
// the last stage begins its backward. If the first layers are dense, all layers are counted as the
// smaller kind. Errors: those of CheckShape and of the mesh.
absl::StatusOr<NeededMemory> LeastMemory(const AnyShape& shape, int pipes, const Mesh& mesh = {},
                                         const StateSharing& sharing = {});

}  // namespace stringline
