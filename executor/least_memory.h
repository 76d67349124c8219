// What a model needs at least, whatever the plan: known from two small models of its width, before
// anything of its size is made.
#pragma once

#include "absl/status/statusor.h"
#include "executor/available_memory.h"
#include "stages/models/model.h"

namespace stringline {

// `pipes` hold the whole model each. The parameters are exact; of the activations it counts what
// one microbatch leaves in all layers, which is there when the last stage begins its backward.
// Errors: those of CheckShape.
absl::StatusOr<NeededMemory> LeastMemory(const AnyShape& shape, int pipes);

}  // namespace stringline
