// Copies to the host and back beside computation, on one rank: all forwards of a step and then all
// backwards, over four stages of which the first one's microbatches wait in the host's memory. The
// step is held against the same without copies, and against its simulation.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/lower/lower.h"
#include "schedlang/orders/place_ahead.h"
#include "schedlang/plan/plan.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int kStages = 4;
constexpr int kAhead = 4;             // a U stands so many actions ahead of its B
constexpr double kMostExposed = 0.1;  // of the copies

Plan OrderOf(int microbatches) {
  std::string text = absl::StrCat("plan copies P=1 M=", microbatches, "\nstages 0 0 0 0\nrank 0:");
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < kStages; ++s) absl::StrAppend(&text, " ", s, "F", m);
  }
  for (int m = 0; m < microbatches; ++m) {
    for (int s = kStages - 1; s >= 0; --s) absl::StrAppend(&text, " ", s, "B", m);
  }
  const Source source("copies", absl::StrCat(text, "\n"));
  Diagnostics diagnostics;
  const std::optional<Plan> plan = ReadPlan(source, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return *plan;
}

absl::StatusOr<GpuRun> Measure(const AnyShape& shape, int steps, const Plan& order) {
  return TrainOnGpu({.shape = shape, .steps = steps}, Lower(order));
}

int64_t DurationOf(const TrainResult& result, ActionKind kind) {
  int64_t all_ns = 0;
  for (const Event& event : result.measured.events) {
    if (event.kind == kind) all_ns += event.end_ns - event.start_ns;
  }
  return all_ns;
}

}  // namespace

void CheckCopies(const AnyShape& shape, int microbatches, int steps, CheckRows* rows) {
  const Plan order = OrderOf(microbatches);
  const std::vector<int64_t> ahead = {kAhead}, first = {1, 0, 0, 0};
  const auto without = Measure(shape, steps, order);
  const auto with = Measure(shape, steps, PlaceCopies(order, ahead, first));
  const std::string name = "the first of four stages";
  if (!without.ok() || !with.ok()) {
    return rows->Fail(name, std::string((without.ok() ? with : without).status().message()));
  }
  const TrainResult& result = with->result;
  const int64_t out_ns = DurationOf(result, ActionKind::kOffload);
  const int64_t back_ns = DurationOf(result, ActionKind::kFetch);
  // Behind the forwards every microbatch is on the host, or on its way.
  const auto bytes = static_cast<double>(result.memory.ranks[0].host);
  const auto longer_ns = static_cast<double>(with->step_ns - without->step_ns);
  const double exposed = std::max(0.0, longer_ns / static_cast<double>(out_ns + back_ns));
  const bool equal = result.losses_nats == without->result.losses_nats;
  const std::string figure = absl::StrFormat(
      "a step of %.1f ms (simulated: %+.1f %%), without copies %.1f ms; %.1f GB to the host at "
      "%.1f GB/s, and back at %.1f GB/s, %.1f %% of both exposed; losses %s",
      static_cast<double>(with->step_ns) * 1e-6, 100 * result.misprediction,
      static_cast<double>(without->step_ns) * 1e-6, bytes * 1e-9,
      bytes / static_cast<double>(out_ns), bytes / static_cast<double>(back_ns), 100 * exposed,
      equal ? "equal in every bit" : "differ");
  if (!equal) return rows->Fail(name, figure);
  rows->Hold(name, exposed / kMostExposed, figure);
}

}  // namespace stringline
