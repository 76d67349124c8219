// The sections of a cost file that say a model's shape, as run files do: `model`, `data`, `mesh`,
// `bucket` and `precision` (model_keys.h). What a run file says beside the shape, as the text
// that it trains on or the theta of its rotations, changes no cost and is read over.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/sharding.h"
#include "schedlang/sim/formula.h"

namespace stringline {

// Takes what the section says; false if `name` is none of the sections. Errors: a key that there is
// not, that is missing, or whose value cannot be.
absl::StatusOr<bool> ReadShapeSection(const std::string& name, const YAML::Node& value,
                                      ModelShape* shape);

// "data=16,shard=8": keys of `mesh`, put in the place of those that the shape has. Errors: as those
// of the section.
absl::Status ReadMesh(absl::string_view text, ModelShape* shape);

// Whether copies can be shared out so, once everything is read; fills in `shard` from `replicate`.
// Errors name the key.
absl::Status ResolveMesh(Sharding sharding, ModelShape* shape);

}  // namespace stringline
