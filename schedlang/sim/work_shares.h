// How a model's layers, and with them its work, are shared by stages; and what a cost is the cost
// of: one stage, as many as a rank has, or the whole model. Schedules that cut a model into more
// stages have shorter ones; compared at costs of a stage they would train a larger model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/plan.h"

namespace stringline {

enum class WorkScope : uint8_t {
  kStage,
  kRank,   // the stages that a rank has of one pipe
  kModel,  // all stages of a pipe
};
const char* NameOf(WorkScope work);  // "stage"
std::optional<WorkScope> ReadWorkScope(absl::string_view name);

// By stage, its share of such a cost: by the layers that `split` gives it, alike where it says none
// (or `balanced`). 1 for kStage.
std::vector<double> WorkShares(const Plan& plan, WorkScope work);

// How many stages the model is cut into.
int StagesOfModel(const Plan& plan);

// How many layers the plan's split says that the stage holds; nothing where it divides them evenly,
// as `balanced` does here.
std::optional<int64_t> LayersBySplit(const Plan& plan, StageId stage);

// How many of `layers` stage `stage` holds by the plan's split; by its pipe's stages where there
// are several. `balanced` counts as even here.
int64_t LayersOfStage(const Plan& plan, StageId stage, int64_t layers);

}  // namespace stringline
