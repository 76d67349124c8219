// The JSON that `--json` prints. Keys keep the order they are written in; README.md lists them.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

using Json = nlohmann::ordered_json;

// One line. Bytes that are not UTF-8 become U+FFFD.
void WriteJson(std::ostream& out, const Json& json);

// [{"code", "file", "line", "column", "message", "where", "notes": [...], "count"}]
Json FindingsAsJson(const Diagnostics& diagnostics, const Source& source);

// {"P": 4, "M": 8}
Json ParametersAsJson(const std::vector<Parameter>& parameters);

// {"schedule", …, "stages": [0, 1], "ranks": [["0F0", …], …]}: groups as they print.
Json PlanAsJson(const Plan& plan);

// {"starts", "moved", "most_us", "unseen"}: ReconstructionOf, of a timeline that keeps what was
// observed; null for others.
Json ReconstructionAsJson(const Timeline& timeline);

// Nanoseconds as microseconds: a whole number where it is one.
Json Microseconds(int64_t ns);

}  // namespace stringline
