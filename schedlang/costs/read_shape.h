// The sections of a cost file that describe a model's shape, as in run files: `model`, `data`,
// `mesh`, `bucket` and `precision` (model_keys.h). Other keys of a run file, as the text to train
// on or the theta of its rotations, change no cost and are read over.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/formula.h"
#include "schedlang/plan/sharding.h"

namespace stringline {

// Reads the section; false if `name` is none of the sections. Errors: an unknown key, a missing
// key, or an invalid value.
absl::StatusOr<bool> ReadShapeSection(const std::string& name, const YAML::Node& value,
                                      ModelShape* shape);

// "data=16,shard=8": keys of `mesh`, which replace those of the shape. Errors: as for the section.
absl::Status ReadMesh(absl::string_view text, ModelShape* shape);

// Checks, once everything is read, that copies can be shared out so; fills in `shard` from
// `replicate`. Errors name the key.
absl::Status ResolveMesh(Sharding sharding, ModelShape* shape);

}  // namespace stringline
