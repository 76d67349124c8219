// A Hugging Face folder: a model's config and parameters, as `transformers` reads and writes them.
//
//   config.json                          family and sizes (family_config.h)
//   model.safetensors                    the parameters, or
//   model.safetensors.index.json         the file of each tensor, among several beside it
//
// F32, BF16 and F16 are read, F32 is written. Names and layouts are the family's (stored_params.h).
// Of a GPT-2 with more positions than the run's context the first ones are trained, and all of them
// are saved.
//
// A written folder is independent of the schedule, the cut into stages, the ranks and the mesh: a
// run with any of them loads the folder. AdamW's moments are left out.
//
// A folder without a config holds a model that no family describes: parameters under their names
// here ("layers.3.attention.qkv.weight"), in our layout, and the model's sizes in the file's
// metadata.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/param_places.h"
#include "executor/engine/world.h"
#include "stages/models/model.h"

namespace stringline {

// FOLDER/model.safetensors
std::string ParamsFile(const std::string& folder);

// The shape in the config, for sequences of `context` tokens, 0: the most that the model takes;
// without a microbatch. Errors are those of ReadFamilyConfig, with the file's name.
absl::StatusOr<AnyShape> ReadFolderShape(const std::string& folder, int context,
                                         bool without_dropout = false);

// Keeps in the shape everything else that a saved folder needs besides the trained parameters: the
// texts of its config and of generation_config.json, and a table of positions with more rows than
// the shape's context. A folder without a config, and an exported model, keep nothing.
absl::Status KeepGiven(const std::string& folder, AnyShape* shape);

// The texts beside the parameters, by file: config.json, and kept texts of the model's folder. None
// for a model of no family.
std::vector<std::pair<std::string, std::string>> TextsOf(const AnyShape& shape);

// Reads all places' parameters, with all their copies. InvalidArgument for a folder of another
// model: other sizes, a missing tensor or one too many, a tensor of another shape, of a type that
// is not read, or with a value that is not finite; the message names file and tensor. All checks
// but the last come first: after their errors nothing has been read. Tells the other processes in
// `world` that it gets on (World::Working).
absl::Status LoadModelFolder(const std::string& folder, const AnyShape& shape,
                             absl::Span<const ParamPlace> places, World* world = nullptr);

// FailedPrecondition if the folder has a config and the model would be saved without a config.
absl::Status CheckSavable(const std::string& folder, const AnyShape& shape);

// "" for a model that is saved with a config, otherwise its feature that no family has.
std::string WhySavedWithoutConfig(const AnyShape& shape);

// Writes the config, if a family describes the model, then the parameters after `steps` steps: each
// file whole or not at all; an earlier file stays until the new file is on the disk. OutOfRange for
// a parameter that is not finite, Unavailable for a failed write; the message names the file.
//
// If the parameters lie in several processes, all of them call this function, and the first process
// writes the same files as a single process would. Returns when the files are there; a process with
// an error tells the others.
absl::Status SaveModelFolder(const std::string& folder, const AnyShape& shape, int64_t steps,
                             absl::Span<const ParamPlace> places, World* world = nullptr);

}  // namespace stringline
