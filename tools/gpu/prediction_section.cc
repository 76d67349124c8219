// The simulator's prediction of a step from costs measured under another schedule. On a single
// rank: ranks that share a GPU slow each other down, which their costs do not show.
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/median.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/sim/simulate.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr double kMostOff = 0.03;
constexpr int kMicrobatches = 8;

struct Measured {
  Plan plan;
  GpuRun run;
};

absl::StatusOr<Measured> Measure(const std::string& folder, const std::string& schedule,
                                 const AnyShape& shape) {
  const std::optional<Plan> plan = PlanOfSchedule(folder, schedule, 1, kMicrobatches);
  if (!plan.has_value()) return absl::NotFoundError(absl::StrCat("no plan of ", schedule));
  RunConfig config;
  config.shape = shape;
  config.steps = 12;
  SL_ASSIGN_OR_RETURN(GpuRun run, TrainOnGpu(config, *plan));
  return Measured{*plan, std::move(run)};
}

}  // namespace

void CheckPrediction(const std::string& folder, const AnyShape& shape, CheckRows* rows) {
  const std::pair<const char*, const char*> pairs[] = {{"gpipe", "1f1b"}, {"1f1b", "gpipe"}};
  for (const auto& [costs_of, predicted] : pairs) {
    const std::string name = absl::StrCat(predicted, " from the costs of ", costs_of);
    const auto from = Measure(folder, costs_of, shape);
    const auto to = Measure(folder, predicted, shape);
    if (!from.ok() || !to.ok()) {
      rows->Fail(name, std::string((from.ok() ? to.status() : from.status()).message()));
      continue;
    }
    const auto simulated = Simulate(to->plan, from->run.result.costs);
    if (!simulated.ok()) {
      rows->Fail(name, std::string(simulated.status().message()));
      continue;
    }
    const auto said_ns = static_cast<double>(MeasureBubbles(*simulated).makespan_ns);
    const auto took_ns = static_cast<double>(MedianOf(to->run.result.makespans_ns));
    const double off = said_ns / took_ns - 1;
    const std::string figure = absl::StrFormat("simulated %.2f ms, measured %.2f ms: %+.1f %%",
                                               said_ns * 1e-6, took_ns * 1e-6, 100 * off);
    rows->Hold(name, std::fabs(off) / kMostOff, figure);
  }
}

}  // namespace stringline
