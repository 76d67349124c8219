// The shares of a model's layers, and so of its work, by stage; and the scope of a cost: one stage,
// a rank's stages, or the whole model. Schedules that cut a model into more stages have shorter
// ones; compared at costs of a stage they would train a larger model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class WorkScope : uint8_t {
  kStage,
  kRank,   // a rank's stages of one pipe
  kModel,  // all stages of a pipe
};
const char* NameOf(WorkScope work);  // "stage"
std::optional<WorkScope> ReadWorkScope(absl::string_view name);

// By stage, its share of a cost with this scope: by the layers that `split` gives the stage, or
// evenly without a split (or `balanced`). 1 for kStage.
std::vector<double> WorkShares(const Plan& plan, WorkScope work);

// The number of stages into which the model is cut.
int StagesOfModel(const Plan& plan);

// A value for every stage of the plan, from one for all, one for each, or one for each stage of a
// pipe. Errors: a list of another length, after `key`.
absl::StatusOr<std::vector<int64_t>> ListOfStages(const Plan& plan, absl::string_view key,
                                                  const std::vector<int64_t>& values);

// The number of layers that the plan's split gives the stage; nothing if the split divides them
// evenly, as `balanced` does here.
std::optional<int64_t> LayersBySplit(const Plan& plan, StageId stage);

// The number of `layers` that the stage holds by the plan's split; by its pipe's stages with
// several pipes. `balanced` counts as even here.
int64_t LayersOfStage(const Plan& plan, StageId stage, int64_t layers);

}  // namespace stringline
