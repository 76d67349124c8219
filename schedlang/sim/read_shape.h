// The sections of a cost file that say a model's shape, as run files do: `model`, `data`, `mesh`,
// `precision`, and `optimizer` (model_keys.h). What a run file says beside the shape, as the text
// that it trains on or the theta of its rotations, changes no cost and is read over.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"
#include "schedlang/sim/formula.h"

namespace stringline {

// Takes what the section says; false if `name` is none of the sections. Errors: a key that there is
// not, that is missing, or whose value cannot be.
absl::StatusOr<bool> ReadShapeSection(const std::string& name, const YAML::Node& value,
                                      ModelShape* shape);

}  // namespace stringline
