// What the stages of a run file's model hold, in bytes: what `check --model` counts.
//
// It is apart from the session because it asks the executor, and what is built without one (the
// Python package) has another definition of it, which refuses.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan.h"
#include "schedlang/sharding.h"

namespace stringline {

struct ModelSizes {
  std::vector<StageSizes> stages;
  CollectiveChoice collectives;  // that a run of the file performs
};

// Errors: those of ReadRunConfig and BuildStages.
absl::StatusOr<ModelSizes> SizesOfModel(const std::string& run_file, const Plan& plan);

}  // namespace stringline
