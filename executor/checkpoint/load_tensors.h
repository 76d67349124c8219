// The parameters of a model from the tensors of a folder.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/param_places.h"
#include "executor/checkpoint/tensor_files.h"

namespace stringline {

// Reads all places' parameters, with all their copies, from tensors that are named and laid out as
// one of the config's tables says; without a table, as our own. Errors: LoadModelFolder's.
absl::Status LoadTensors(const TensorFiles& files, const FamilyConfig& config,
                         absl::Span<const ParamPlace> places);

// Where a tensor's values belong in a parameter. One that is turned over is in one piece.
std::vector<ParamPlace::Range> RangesOf(const ParamPlace& place, const StoredSlice& slice);

}  // namespace stringline
