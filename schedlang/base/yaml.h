// YAML files as this project reads them: one document of maps, lists and words.
#pragma once

#include <yaml-cpp/yaml.h>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"

namespace stringline {

// The text's only document. InvalidArgument "FILE:LINE: …" for what is not YAML, for a text without
// a document or with two, and for what would be read as something else than it says: anchors,
// aliases, tags, merge keys, and nesting deeper than any file of ours has.
absl::StatusOr<YAML::Node> LoadYaml(const Source& source);

}  // namespace stringline
