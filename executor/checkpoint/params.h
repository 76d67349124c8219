// The parameters of a model in training as a file, and back.
//
// The file is `model.safetensors` in a folder. Tensors carry the names and shapes that they have in
// the model ("layers.3.attention.qkv.weight"), in the order of the model: nothing in it depends on
// the schedule, the cut into stages or the number of ranks, and what was saved by one run can be
// loaded by a run with another. Where the plan has several pipes, which hold equal parameters, each
// is written once and loaded into all. AdamW's moments are not saved.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/trainer.h"
#include "stages/models/model.h"

namespace stringline {

// What a model is, in words and numbers: "layers" and "8". What the shapes of tensors do not all
// say.
std::vector<std::pair<const char*, std::string>> SizesOf(const AnyShape& shape);

// FOLDER/model.safetensors
std::string ParamsFile(const std::string& folder);

// Writes the parameters after `steps` steps, whole or not at all: an earlier file stays until the
// new one is on the disk. OutOfRange for a parameter that is not finite, Unavailable for a disk
// that does not take it; the message names the file.
absl::Status SaveParams(const std::string& file, const AnyShape& shape, int64_t steps,
                        Trainer& trainer);

// InvalidArgument for a file of another model: a tensor that is missing or too many, of another
// shape or dtype, not finite; the message names file and tensor. Errors of TensorFile.
absl::Status LoadParams(const std::string& file, const AnyShape& shape, Trainer& trainer);

}  // namespace stringline
