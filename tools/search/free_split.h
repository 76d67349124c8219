// Which layers each stage holds, where a search may choose it.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/plan.h"
#include "schedlang/search/partition.h"
#include "tools/search/rounds.h"
#include "tools/search/search_session.h"
#include "tools/session.h"

namespace stringline {

// How many layers the model has: what its shape says, or else `said` (-1: nothing). Errors:
// InvalidArgument where neither says it, where they differ, or where costs are those of a stage.
absl::StatusOr<int> LayersOfModel(const StepCosts& costs, int said);

// The stages, of which each holds so many layers.
Plan WithPartition(Plan stages, absl::Span<const int> partition);

// All ways to share the layers out over these stages, each at its costs. The first and the last
// stage of a model with a shape may hold the embedding and the head alone. Where the search may
// choose which stages recompute, all do here. Errors: fewer layers than stages; those of
// ProblemWithin where layers are shared out evenly.
absl::StatusOr<search::Partitioning> FreeSplit(const SearchRequest& request, const StepCosts& costs,
                                               const Plan& stages);

// The best of them that is found within a quarter of `budget`, more or less, with its orders. Its
// bound holds for all of them. Errors: those of FreeSplit.
absl::StatusOr<search::Found> ChooseSplit(const SearchRequest& request, const StepCosts& costs,
                                          const Plan& stages, const SearchBudget& budget);

}  // namespace stringline
