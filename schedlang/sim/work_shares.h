// What a cost is the cost of: one stage, as many as a rank has, or the whole model. Schedules that
// cut a model into more stages have shorter ones; compared at costs of a stage they would train a
// larger model.
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

}  // namespace stringline
