// Many schedules, many parameters: how long each step takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/sweep.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct SweptStep {
  enum class State : uint8_t { kSimulated, kRefused, kWrong } state = State::kSimulated;
  std::string message;  // the reason of the refusal, or the error
  int64_t actions = 0;  // computations
  int stages = 0;       // in the model (StagesOfModel)
  int64_t makespan_ns = 0;
  double bubble = 0;  // as in Bubbles, and the next ones
  double busiest_bubble = 0;
  double idlest_bubble = 0;
  double span_bubble = 0;
  int peak_activations = 0;  // on the rank with the most; with slices, so many of them
  int slices = 1;            // of a microbatch
  OrderFit fit = OrderFit::kNoCosts;
};

// Lowers, checks and simulates every plan: steps[sweep.IndexOf(schedule, point)]. The result does
// not depend on the number of threads; these, `after_each` and errors as of ForEachPlan. Errors,
// too: a missing cost that a plan needs.
absl::StatusOr<std::vector<SweptStep>> SimulateAll(
    const Sweep& sweep, const StepCosts& costs, CommLayout layout, int threads = 0,
    const std::function<bool()>& after_each = [] { return true; });

}  // namespace stringline
