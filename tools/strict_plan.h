// The plan of `run --strict`: lowered, and performed once by the strict executor. The checker's
// word about ranks that wait for each other does not keep a plan from being tried.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/session.h"

namespace stringline {

struct StrictPlan {
  // The lowered plan; nothing where the text is wrong in another way than by a circle of waits.
  // The checker's findings, those of such a circle among them, are in its diagnostics.
  Session session;
  // "" where the plan ends. Otherwise what every rank waits for, with action and line.
  std::string hang;
};

// Errors: those of OpenPlan.
// Of `check` the layout and the collectives count.
absl::StatusOr<StrictPlan> OpenStrictPlan(const PlanRequest& request, const CheckRequest& check);

}  // namespace stringline
