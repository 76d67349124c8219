// config.json of a Hugging Face folder: which family, which sizes.
//
// A config says much that a training does not depend on, and some things that it does. Every key is
// read into the shape, must have a value that means what is built here, or stands in a list of keys
// that do not matter. Anything else is an error that names key and value: no part of a model is
// left out silently.
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

struct FamilyConfig {
  std::string model_type;  // "llama"
  AnyShape shape;          // without a microbatch
  absl::Span<const StoredParam> params;
  // Not empty: another layout in which a folder may hold the model.
  absl::Span<const StoredParam> packed;
};

// `text` is the config. `context` is how many tokens a sequence will have, 0: as many as the model
// takes. InvalidArgument names the key and its value; Unimplemented for a family that is not built
// here.
absl::StatusOr<FamilyConfig> ReadFamilyConfig(absl::string_view text, int context);

// The family that a model is saved as: its name and its parameters' table. Unimplemented for one
// that none of them describes.
absl::StatusOr<FamilyConfig> FamilyOf(const AnyShape& shape);

// The config of a model that FamilyOf knows.
std::string PrintFamilyConfig(const AnyShape& shape);

}  // namespace stringline
