// A Hugging Face folder: a model's config and parameters, as `transformers` reads and writes them.
//
//   config.json                          family and sizes (family_config.h)
//   model.safetensors                    the parameters, or
//   model.safetensors.index.json         which tensor is in which of several files beside it
//
// F32, BF16 and F16 are read, F32 is written. Names and layouts are those of the family
// (stored_params.h). Of a GPT-2 with more positions than the run's context the first ones are read.
//
// What is written knows nothing of the schedule, the cut into stages, the ranks and the mesh: any
// of them loads it. AdamW's moments are not in it.
//
// A folder without a config holds a model that no family describes: parameters under their names
// here ("layers.3.attention.qkv.weight"), in the layout that they have here, and the model's sizes
// in the file's metadata.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/param_places.h"
#include "executor/world.h"
#include "stages/models/model.h"

namespace stringline {

// FOLDER/model.safetensors
std::string ParamsFile(const std::string& folder);

// The shape that the config describes, for sequences of `context` tokens, 0: as many as the model
// takes; without a microbatch. Errors name the file, and what ReadFamilyConfig says.
absl::StatusOr<AnyShape> ReadFolderShape(const std::string& folder, int context);

// Reads all places' parameters, with all their copies. InvalidArgument for a folder of another
// model: other sizes, a tensor that is missing or too many, of another shape, of a type that is not
// read, or with a value that is not finite; the message names file and tensor. All checks but the
// last come first: after an error of theirs nothing has been read.
absl::Status LoadModelFolder(const std::string& folder, const AnyShape& shape,
                             absl::Span<const ParamPlace> places);

// FailedPrecondition where the folder has a config and the model would be saved without one.
absl::Status CheckSavable(const std::string& folder, const AnyShape& shape);

// "" for a model that is saved with a config, otherwise what it has that no family has.
std::string WhySavedWithoutConfig(const AnyShape& shape);

// Writes the config, if there is a family for it, then the parameters after `steps` steps: each
// file whole or not at all, an earlier one stays until the new one is on the disk. OutOfRange for a
// parameter that is not finite, Unavailable for a disk that does not take it; the message names the
// file.
//
// Where the parameters lie in several processes all of them call it, and the first one writes what
// one process would. It returns when the files are there; whoever has an error tells the others.
absl::Status SaveModelFolder(const std::string& folder, const AnyShape& shape, int64_t steps,
                             absl::Span<const ParamPlace> places, World* world = nullptr);

}  // namespace stringline
