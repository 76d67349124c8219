// Many schedules, many parameters: how long each step takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

// A schedule of the sweep, by its name in a file.
struct SweptSchedule {
  ast::File file;
  std::string schedule;                      // its name in the file; "" for the last
  std::string name;                          // for people
  std::shared_ptr<search::KeptOrders> kept;  // orders found before; may be null
};

// The names of its parameters.
std::vector<std::string> ParameterNames(const SweptSchedule& swept);

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
  int peak_activations = 0;  // on the rank with the most
  OrderFit fit = OrderFit::kNoCosts;
};

// `after_each` is called after every step, from any of the threads; false ends the sweep with
// Cancelled. Parameters that a schedule does not have are left out for it. Elaborates, lowers,
// checks and simulates every schedule at every point, on `threads` threads; the result does not
// depend on their number: steps[schedule * points.size() + point]. Errors: a missing cost that a
// plan needs; ResourceExhausted if a plan does not fit into memory.
absl::StatusOr<std::vector<SweptStep>> SimulateAll(
    absl::Span<const SweptSchedule> schedules, const std::vector<Parameter>& fixed,
    const SweepPoints& points, const StepCosts& costs, CommLayout layout, int threads,
    const std::function<bool()>& after_each = [] { return true; });

}  // namespace stringline
