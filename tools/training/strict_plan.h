// The plan of `run --strict`: lowered, and performed once by the strict executor. A deadlock found
// by the checker does not keep a plan from being tried.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"

namespace stringline {

struct StrictPlan {
  // The lowered plan; nothing where the text has a finding other than a wait cycle. The checker's
  // findings, including wait cycles, are in its diagnostics.
  Session session;
  // "" where the plan ends. Otherwise the awaited event of every rank, with action and line.
  std::string hang;
};

// Errors: those of OpenPlan.
// Of `check` the layout and the collectives count.
absl::StatusOr<StrictPlan> OpenStrictPlan(const PlanRequest& request, const CheckRequest& check);

}  // namespace stringline
