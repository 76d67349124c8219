// A step's metrics as a table for people: the rank that computes most first.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/io/json.h"

namespace stringline {

// `metrics`: a line of MetricsLines, which was noted `age_s` seconds ago. InvalidArgument if it is
// no such line.
absl::StatusOr<std::string> WatchTable(const Json& metrics, double age_s);

}  // namespace stringline
