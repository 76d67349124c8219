// config.json of a Hugging Face folder: family and sizes.
//
// Some keys of a config affect training, many do not. Every key is read into the shape, must have a
// value that matches the model as built here, or stands in a list of keys that do not matter.
// Anything else is an error that names key and value: no part of a model is left out silently. A
// null key counts as missing.
//
// To add a family: a row in kFamilies, with the functions that read and write its config, and a
// table of its parameters (stored_params.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/checkpoint/stored_params.h"
#include "stages/models/model.h"

namespace stringline {

inline constexpr char kConfigFile[] = "config.json";

struct FamilyConfig {
  std::string model_type;  // "llama"
  AnyShape shape;          // without a microbatch
  absl::Span<const StoredParam> params;
  // Not empty: another layout in which a folder may hold the model.
  absl::Span<const StoredParam> packed;
};

// `text` is the config. `context` is the number of tokens of a sequence, 0: the most that the model
// takes. A config with dropout is refused, unless `without_dropout`. InvalidArgument names the key
// and its value; Unimplemented for a family that is not built here.
absl::StatusOr<FamilyConfig> ReadFamilyConfig(absl::string_view text, int context,
                                              bool without_dropout = false);

// The family under which a model is saved: its name and its parameters' table. Unimplemented for a
// model that no family describes.
absl::StatusOr<FamilyConfig> FamilyOf(const AnyShape& shape);

// The config of a model known to FamilyOf. A model from a folder keeps the folder's config, except
// for the type of its tensors.
std::string PrintFamilyConfig(const AnyShape& shape);

}  // namespace stringline
