// The number of layers of each stage, if a search may choose it.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/session.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/partition.h"

namespace stringline {

// The number of layers of the model: from the costs (`layers`), from its shape, or else `said` (-1:
// not given). Errors: InvalidArgument if none gives the number, if they differ, if costs are a
// stage's, or if costs of parts do not say it.
absl::StatusOr<int> LayersOfModel(const StepCosts& costs, int said);

// The stages, of which each holds so many layers.
Plan WithPartition(Plan stages, absl::Span<const int> partition);

// All ways to share the layers out over these stages, each at its costs. The first and the last
// stage of a model with a shape may hold the embedding and the head alone. Where the search may
// choose which stages recompute, those of `recomputes` do, by stage (empty: all). Errors: fewer
// layers than stages; those of ProblemWithin where layers are shared out evenly.
absl::StatusOr<search::Partitioning> FreeSplit(const SearchRequest& request, const StepCosts& costs,
                                               const Plan& stages,
                                               const search::Recomputes& recomputes = {});

// The best partition found within about a quarter of `budget`, with its orders. The bound holds for
// all partitions if `room` is 1; otherwise orders take such a share of the memory at most. Goes on
// from the partition and the orders of `before`, if it has any, where the stages of
// `before.recomputes` recompute. Errors: those of FreeSplit.
absl::StatusOr<search::Found> ChooseSplit(const SearchRequest& request, const StepCosts& costs,
                                          const Plan& stages, const SearchBudget& budget,
                                          double room, search::Found before = {});

}  // namespace stringline
