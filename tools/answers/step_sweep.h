// Step times for many schedules and parameters, from request to answer: `sim --for`. All points are
// listed first and simulated on all cores.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/sim_sweep.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/base/fields.h"
#include "tools/io/json.h"

namespace stringline {

struct SweepRequest {
  std::vector<PlanRequest> schedules;  // without parameters
  std::vector<SweepRange> ranges;
  std::vector<Parameter> fixed;  // a schedule gets those among its parameters
  CostRequest costs;
  CommLayout layout = CommLayout::kEdge;
};

// Findings about a file.
struct BrokenFile {
  Source source;
  Diagnostics findings;
};

struct SimSweepReport {
  std::vector<SweptSchedule> schedules;
  SweepPoints points;
  StepCosts costs;
  std::vector<SweptStep> steps;  // by schedule and point
  double elapsed_s = 0;

  const SweptStep& At(size_t schedule, size_t point) const {
    return steps[schedule * points.size() + point];
  }
  // "M=8", "P=4 M=8": the values of a point.
  std::string NameOf(size_t point) const {
    std::string name;
    for (size_t i = 0; i < points.names.size(); ++i) {
      absl::StrAppend(&name, i == 0 ? "" : " ", points.names[i], "=", points.at(point)[i]);
    }
    return name;
  }
};

// The schedules and points, nothing simulated yet; nothing, and *broken, if a file has findings.
// Errors: names that no schedule has, invalid ranges and costs.
absl::StatusOr<std::optional<SimSweepReport>> ListedSweep(const SweepRequest& request,
                                                          std::optional<BrokenFile>* broken);
// Simulates them. `after_each` and errors as of SimulateAll.
absl::Status SimulateListed(const SweepRequest& request, const std::function<bool()>& after_each,
                            SimSweepReport* report);

// Messages of refused points have their fields spelled so.
Json SweptAsJson(const SimSweepReport& report, SpellField spell);

}  // namespace stringline
