// The parameters of a model from the tensors of a folder.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/param_places.h"
#include "executor/checkpoint/tensor_files.h"
#include "executor/engine/world.h"

namespace stringline {

// Reads all places' parameters, with all their copies, from tensors with the names and layouts of
// one of the config's tables; without a table, from our own. Tells the other processes in `world`
// that it gets on. Errors: LoadModelFolder's.
absl::Status LoadTensors(const TensorFiles& files, const FamilyConfig& config,
                         absl::Span<const ParamPlace> places, World* world = nullptr);

// The places of a tensor's values in a parameter. A transposed tensor is in a single piece.
std::vector<ParamPlace::Range> RangesOf(const ParamPlace& place, const StoredSlice& slice);

}  // namespace stringline
