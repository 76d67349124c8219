// ast + parameters -> Plan. The only phase that evaluates expressions and runs loops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

struct ElaborateLimits {
  int64_t actions = 100'000'000;  // more than this is a finding, and the end
  // Loop passes that do nothing count too, or `repeat 1 << 60 { }` would not end.
  int64_t steps = 1'000'000'000;
  int64_t ranks = 1 << 20;  // P, and the number of stages, may not exceed this
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
