// Plans for tests, from their text form.
#pragma once

#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/lower.h"
#include "schedlang/plan.h"

namespace stringline {

inline Plan PlanFrom(const std::string& text) {
  const Source source("test.plan", text);
  Diagnostics diagnostics;
  std::optional<Plan> plan = ReadPlan(source, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return *std::move(plan);
}

inline Plan LoweredFrom(const std::string& text) { return Lower(PlanFrom(text)); }

}  // namespace stringline
