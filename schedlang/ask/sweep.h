// Many schedules with many parameters: all plans are listed first, and then made on all cores.
// Questions about each plan stand in check_sweep.h (is it right?) and sim_sweep.h (how long does it
// take?).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/text/ast.h"

namespace stringline {

struct SweepQuestion {
  std::vector<PlanRequest> schedules;  // without parameters
  std::vector<SweepRange> ranges;
  std::vector<Parameter> fixed;  // a schedule gets those among its parameters
};

// Findings about a file.
struct BrokenFile {
  Source source;
  Diagnostics findings;
};

struct SweptSchedule {
  Source source;
  ast::File file;
  std::string schedule;                      // its name in the file; "" for the last
  std::string name;                          // for people
  std::vector<std::string> parameters;       // the names of those that it has
  std::shared_ptr<search::KeptOrders> kept;  // orders found before; may be null
};

// Every schedule at every point.
struct Sweep {
  std::vector<SweptSchedule> schedules;
  std::vector<Parameter> fixed;
  SweepPoints points;

  size_t plans() const { return schedules.size() * points.size(); }
  size_t IndexOf(size_t schedule, size_t point) const { return schedule * points.size() + point; }
  // The fixed parameters and those of the point.
  std::vector<Parameter> ParametersAt(size_t point) const;
  // "M=8", "P=4 M=8": the values of a point.
  std::string NameOf(size_t point) const;
};

// Nothing, and *broken, if a file has findings. Errors: a file that holds its parameters, names
// that no schedule has, a parameter without a value, invalid ranges.
absl::StatusOr<std::optional<Sweep>> ListSweep(const SweepQuestion& question,
                                               std::optional<BrokenFile>* broken);

// A use of the plan with this index (Sweep::IndexOf); no plan if its elaboration has findings.
using UsePlan =
    std::function<absl::Status(size_t index, std::optional<Plan> plan, Diagnostics* findings)>;

// The plan with this index, elaborated with the parameters that its schedule has.
std::optional<Plan> PlanAt(const Sweep& sweep, size_t index, Diagnostics* findings);

// Makes every plan, the last ones, mostly the largest, first, and uses it, on `threads` threads;
// 0: one for each core. `use` and `after_each` are called from all of them. Ends with the first
// error; with Cancelled if `after_each` returns false; with ResourceExhausted if a plan does not
// fit into memory.
absl::Status ForEachPlan(
    const Sweep& sweep, const UsePlan& use, int threads = 0,
    const std::function<bool()>& after_each = [] { return true; });

}  // namespace stringline
