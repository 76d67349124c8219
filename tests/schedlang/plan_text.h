// Plans from their text form, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The plan of `text`; on findings the test fails and an empty plan comes back.
inline Plan PlanFromText(std::string text) {
  const Source source("test.plan", std::move(text));
  Diagnostics diagnostics;
  auto plan = ReadPlan(source, &diagnostics);
  EXPECT_TRUE(plan) << Render(diagnostics, source);
  return plan ? *std::move(plan) : Plan{};
}

}  // namespace stringline
