// ast + parameters -> Plan. The only phase that evaluates expressions and runs loops.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/text/ast.h"

namespace stringline {

// More than these is a finding, and the end. They are counts and not times, so that a text is the
// same on every machine. A schedule that does nothing but what its plan needs stays far below them;
// any other stops within a second.
struct ElaborateLimits {
  int64_t actions = 100'000'000;
  // A step is a number, a name or an operation that is evaluated, a call, a pass of a loop, an
  // action that is performed (one that is written down for later counts as five, since it takes
  // memory), or a slot of a timetable. A plan may take this many, and so many more for every F, I
  // and W that it can have.
  int64_t steps = 20'000'000;
  int64_t steps_per_action = 100;
  int64_t ranks = 1 << 20;  // P, and the number of stages
  int64_t stages_per_rank = 1 << 10;
  // Letters that a search may look at: what would need more is searched for less long.
  int64_t searched_letters = std::numeric_limits<int64_t>::max();
  // Orders that were found before; may be null.
  search::KeptOrders* kept = nullptr;
};

// Elaborates the schedule `name` of `file` ("" means its last one, the one the file is about) with
// the given parameter values. The files that it uses have been read (text/uses.h); their schedules
// are there to derive others from. P and M must be given, options have defaults. The plan is not
// lowered and not checked. Findings: unknown or missing parameters, unknown names ("did you mean"),
// wrong values, arithmetic errors, `require`s that do not hold, limits.
std::optional<Plan> Elaborate(const ast::File& file, const std::string& name,
                              const std::vector<Parameter>& parameters, Diagnostics* diagnostics,
                              const ElaborateLimits& limits = {});

}  // namespace stringline
