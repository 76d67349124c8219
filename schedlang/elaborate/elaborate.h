// ast + parameters -> Plan. The only phase that evaluates expressions and runs loops.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/stop.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/text/ast.h"

namespace stringline {

// The limits of elaboration; to exceed one is a finding, and the end. They count work rather than
// time, so a text means the same on every machine. A schedule that does nothing but what its plan
// needs stays far below them; any other stops within a second.
struct ElaborateLimits {
  // An action takes some 150 bytes and a microsecond in checks and simulations.
  int64_t actions = 1 << 24;
  // A step is a number, a name or an operation evaluated, a call, a pass of a loop, an action
  // performed (an action of an order counts as five, since it takes memory), or a slot of a
  // timetable. A plan may take `steps`, and `steps_per_action` more for every F, I and W it can
  // have.
  int64_t steps = 20'000'000;
  int64_t steps_per_action = 100;
  int64_t ranks = 1 << 20;  // P, and the number of stages
  int64_t stages_per_rank = 1 << 10;
  // The letters that a search may examine: beyond them, iterations are reduced.
  int64_t searched_letters = std::numeric_limits<int64_t>::max();
  // On this wish elaboration ends with a finding, and a search in a block soon, with its best
  // orders so far. May be null.
  const Stop* stop = nullptr;
  // Orders found before; may be null.
  search::KeptOrders* kept = nullptr;
};

// Elaborates the schedule `name` of `file` ("" means the last one, the subject of the file) with
// the given parameter values. The files in its `use` statements have been read (text/uses.h); their
// schedules can be bases of derived ones. P and M must be given, options have defaults. The plan is
// not lowered and not checked. `steps` is a parameter of every schedule that neither declares one
// of this name nor says itself how many steps it has: so often the order of a step is performed
// (RepeatSteps). So are `window` and `slack` (Plan::window), in place of the schedule's own.
// Findings: unknown or missing parameters, unknown names ("did you mean"), wrong values, arithmetic
// errors, `require`s that do not hold, limits.
std::optional<Plan> Elaborate(const ast::File& file, const std::string& name,
                              const std::vector<Parameter>& parameters, Diagnostics* diagnostics,
                              const ElaborateLimits& limits = {});

// The parameters of schedules that do not declare them.
inline constexpr char kStepsParameter[] = "steps";
inline constexpr char kWindowParameter[] = "window";
inline constexpr char kSlackParameter[] = "slack";

}  // namespace stringline
