// Stages that recompute: they keep only a microbatch's input, and their B or I begins with the F
// again. From then on the values for W exist.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// By stage: 1 for a stage that recomputes, else 0; lists as ListOfStages takes them. Empty without
// the key. Errors: other numbers of values, and other values.
absl::StatusOr<std::vector<int64_t>> RecomputedStages(const CostSpec& spec, const Plan& plan);

// Of a microbatch the stage keeps its input alone, of this size; the values dropped are made again
// while B or I runs. Changes nothing if the input is no smaller.
void KeepInput(int64_t input, StageMemory* memory);

// Adds times and memory of the stages that recompute; `costs` are those without. A stage's input is
// as large as the message that brought it, and empty at the beginning of the model.
void AddRecompute(const Plan& plan, const std::vector<int64_t>& recomputes, CostModel* costs);

}  // namespace stringline
