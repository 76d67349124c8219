// JSON from an untrusted file, as a tree.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

// InvalidArgument, naming the text by `what` ("the header"), for a text that is no JSON object or
// nests deeper than `deepest`, and for a key that stands twice in an object: the parser would
// silently keep the last.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view what,
                                               int deepest);

// On a single line, with any bytes in its texts.
std::string InJson(const nlohmann::json& value);

}  // namespace stringline
