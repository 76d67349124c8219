// The JSON that `--json` prints. Keys keep their order of insertion; tools/JSON.md lists them.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

using Json = nlohmann::ordered_json;

// A single line. Bytes that are not UTF-8 become U+FFFD.
void WriteJson(std::ostream& out, const Json& json);

// [{"code", "file", "line", "column", "message", "where", "notes": [...], "count"}]
Json FindingsAsJson(const Diagnostics& diagnostics, const Source& source);

// {"P": 4, "M": 8}
Json ParametersAsJson(const std::vector<Parameter>& parameters);

// {"schedule", …, "stages": [0, 1], "ranks": [["0F0", …], …]}: groups as they print.
Json PlanAsJson(const Plan& plan);

// {"starts", "moved", "most_us", "unseen"}: ReconstructionOf, for a timeline with observed times;
// null for others.
Json ReconstructionAsJson(const Timeline& timeline);

// Nanoseconds as microseconds: an integer if whole.
Json Microseconds(int64_t ns);
// Activations in microbatches, where so many slices are counted: a fraction only with slices.
Json ActivationsAsJson(int slices, int count);

}  // namespace stringline
