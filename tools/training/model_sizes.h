// Bytes that the stages of a run file's model hold: the sizes for `check --model`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Errors: those of ReadRunConfig and BuildStages.
absl::StatusOr<ModelSizes> SizesOfModel(const std::string& run_file, const Plan& plan);

}  // namespace stringline
