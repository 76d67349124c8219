// JSON from a file that anybody may have written, as a tree.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

// InvalidArgument, with `what` ("the header") for a text that is no JSON object or whose braces and
// brackets nest deeper than `deepest`, and for a key that stands twice in one object: the parser
// would keep the last one and say nothing.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view what,
                                               int deepest);

// On one line, whatever bytes its texts hold.
std::string InJson(const nlohmann::json& value);

}  // namespace stringline
