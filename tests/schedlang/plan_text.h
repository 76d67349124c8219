// Plans from their text form, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan.h"

namespace stringline {

// The plan that `text` says; the test fails, and an empty plan comes back, when it says none.
inline Plan PlanFromText(std::string text) {
  const Source source("test.plan", std::move(text));
  Diagnostics diagnostics;
  auto plan = ReadPlan(source, &diagnostics);
  EXPECT_TRUE(plan) << Render(diagnostics, source);
  return plan ? *std::move(plan) : Plan{};
}

}  // namespace stringline
