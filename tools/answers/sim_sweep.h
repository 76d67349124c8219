// Step times for many schedules and parameters, from question to answer: `sim --for`.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/sim_sweep.h"
#include "schedlang/base/fields.h"
#include "tools/io/json.h"

namespace stringline {

struct SimSweepQuestion {
  SweepQuestion plans;
  CostRequest costs;
  CommLayout layout = CommLayout::kEdge;
};

struct SimSweepReport {
  Sweep sweep;
  StepCosts costs;
  std::vector<SweptStep> steps;  // by schedule and point
  double elapsed_s = 0;

  const SweptStep& At(size_t schedule, size_t point) const {
    return steps[sweep.IndexOf(schedule, point)];
  }
};

// The schedules and points, nothing simulated yet; nothing, and *broken, if a file has findings.
// Errors, too: invalid costs.
absl::StatusOr<std::optional<SimSweepReport>> ListSimSweep(const SimSweepQuestion& question,
                                                           std::optional<BrokenFile>* broken);
// Simulates them. `after_each` and errors as of SimulateAll.
absl::Status SimulateListed(CommLayout layout, const std::function<bool()>& after_each,
                            SimSweepReport* report);

// Messages of refused points have their fields spelled so.
Json SimSweepAsJson(const SimSweepReport& report, SpellField spell);

}  // namespace stringline
