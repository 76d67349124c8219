// Many schedules, many parameters: how long each step takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/plan.h"
#include "schedlang/text/ast.h"
#include "tools/session.h"
#include "tools/sweep_range.h"

namespace stringline {

// One schedule of the sweep: the one of its file that is asked for.
struct SweptSchedule {
  ast::File file;
  std::string schedule;                      // its name in the file; "" for the last
  std::string name;                          // for people
  std::shared_ptr<search::KeptOrders> kept;  // orders that were found before; may be null
};

// The names of its parameters.
std::vector<std::string> ParameterNames(const SweptSchedule& swept);

struct SweptStep {
  enum class State : uint8_t { kSimulated, kRefused, kWrong } state = State::kSimulated;
  std::string message;  // why it was refused, or what is wrong
  int64_t actions = 0;  // computations
  int stages = 0;       // of the model (StagesOfModel)
  int64_t makespan_ns = 0;
  double bubble = 0;  // as in Bubbles, and the next ones
  double busiest_bubble = 0;
  double idlest_bubble = 0;
  double span_bubble = 0;
  int peak_activations = 0;  // of the rank that holds most
};

// `after_each` is called after every step, from any of the threads; false ends the sweep with
// Cancelled. Parameters that a schedule does not have are not given to it. Elaborates, lowers,
// checks and simulates every schedule at every point, on `threads` threads; what comes out does not
// depend on how many they are: steps[schedule * points.size() + point]. Errors: a cost that a plan
// needs and nobody gave; ResourceExhausted if a plan needs more memory than there is.
absl::StatusOr<std::vector<SweptStep>> SimulateAll(
    absl::Span<const SweptSchedule> schedules, const std::vector<Parameter>& fixed,
    const SweepPoints& points, const StepCosts& costs, CommLayout layout, int threads,
    const std::function<bool()>& after_each = [] { return true; });

}  // namespace stringline
