// Placements of stages to try if the user names none, and known orders to begin with.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/stop.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem.h"

namespace stringline {

// A placement by its word, "line", "v", "loop 2" (stages a rank), "wave 4", or the rank of each
// stage, "[0,1,1,0]"; "any": all words that are worth a try, and not too large. As plans of stages
// without actions. Errors: a word that is none; more than a search takes (search/problem.h).
struct PlacedStages {
  std::string word;  // "loop 2"
  Plan stages;
};
absl::StatusOr<std::vector<PlacedStages>> StagesOf(const std::string& places, int64_t p, int64_t m);

// True if the stages of both live on the same ranks.
bool IsSamePlace(const Plan& a, const Plan& b);

// The orders of the library's schedules whose stages live where those of this plan do, with the
// schedule's name.
struct KnownOrders {
  std::string schedule;
  search::Words words;
};
// Stops after a wish of `stop` (null: never) with the orders made so far.
std::vector<KnownOrders> LibraryOrdersOn(const Plan& stages, const Stop* stop = nullptr);

}  // namespace stringline
