// Reads YAML files: a single document of maps, lists and words.
#pragma once

#include <yaml-cpp/yaml.h>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"

namespace stringline {

// The text's only document. InvalidArgument "FILE:LINE: …" for a text that is not YAML or has no
// document or two, and for features that would change the reading silently: anchors, aliases, tags,
// merge keys, and deeper nesting than in any file of ours.
absl::StatusOr<YAML::Node> LoadYaml(const Source& source);

}  // namespace stringline
