// Stages that recompute: they keep only a microbatch's input. Their F is done again by their R
// actions or, in a plan without R of the stage, at the beginning of their B or I; from then on the
// values for W exist.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// By stage: 1 for a stage that recomputes, else 0, as the spec says or else the plan; lists as
// ListOfStages takes them. Empty if neither says so. Errors: other numbers of values, and other
// values; 0 for a stage whose R the plan lists.
absl::StatusOr<std::vector<int64_t>> RecomputedStages(const CostSpec& spec, const Plan& plan);

// Of a microbatch the stage keeps its input alone, of this size; the values dropped are made again
// while B or I runs. Changes nothing if the input is no smaller.
void KeepInput(int64_t input, StageMemory* memory);

// Adds times and memory of the stages that recompute; `costs` are those without. `again` is by
// stage the time of an F done again; empty: F's. Unless costs say its size (memory.kept), a stage's
// input is as large as the message that brought it, and empty at the beginning of the model.
void AddRecompute(const Plan& plan, const std::vector<int64_t>& recomputes,
                  const std::vector<int64_t>& again, bool says_kept, CostModel* costs);

}  // namespace stringline
