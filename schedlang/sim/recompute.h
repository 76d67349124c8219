// Stages that recompute: of a microbatch they keep what entered it, and their B or I begins with
// the F again. What a W needs is there from then on.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

// By stage: 1 where it recomputes, 0 where not; one value is for all stages. Empty where nothing is
// said. Errors: other numbers of values, and other values.
absl::StatusOr<std::vector<int64_t>> RecomputedStages(const CostSpec& spec, size_t stages);

// Times and memory of the stages that recompute; `costs` are those without. What entered a stage is
// as large as the message that brought it, and nothing at the beginning of the model.
void AddRecompute(const Plan& plan, const std::vector<int64_t>& recomputes, CostModel* costs);

}  // namespace stringline
