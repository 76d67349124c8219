// Where stages may live when nobody says it, and what is known to begin with there.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/search/problem.h"

namespace stringline {

// A placement by its word, "line", "v", "loop 2" (stages a rank), "wave 4"; "any": all of those
// that are worth a try. As plans of stages without actions. Errors: a word that is none.
absl::StatusOr<std::vector<Plan>> StagesOf(const std::string& places, int64_t p, int64_t m);

// The orders of the library's schedules whose stages live where those of this plan do, with the
// schedule's name.
struct KnownOrders {
  std::string schedule;
  search::Words words;
};
std::vector<KnownOrders> LibraryOrdersOn(const Plan& stages);

}  // namespace stringline
