// One schedule, many parameters: which of them are proven, which the schedule itself refuses by a
// `require`, and which are wrong.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/text/ast.h"
#include "tools/sweep_range.h"

namespace stringline {

enum class SweepVerdict : uint8_t { kRight, kRefused, kWrong };

struct SweepResult {
  std::vector<SweepVerdict> verdicts;  // by point
  // A `require` that refused: its message, how often, and the first point.
  struct Refusal {
    std::string message;
    size_t count = 0;
    size_t first = 0;
  };
  std::vector<Refusal> refusals;  // in the order of their first points
  std::optional<size_t> first_wrong;
  Diagnostics findings;  // of the first wrong point

  size_t Count(SweepVerdict verdict) const;
};

// What is asked of an elaborated plan: false after a finding.
using PlanProof = std::function<bool(const Plan& plan, Diagnostics* diagnostics)>;

// The parameters of one point, those that are fixed first.
std::vector<Parameter> ParametersAt(const SweepPoints& points, size_t point,
                                    const std::vector<Parameter>& fixed);

// Elaborates and proves the plan of every point on `threads` threads; what comes out does not
// depend on how many they are. `prove` is called from all of them, and `after_each` after every
// plan. `kept` (may be null): orders that were found before. Error: ResourceExhausted if a plan
// needs more memory than there is.
absl::StatusOr<SweepResult> Sweep(
    const ast::File& file, const std::string& schedule, const std::vector<Parameter>& fixed,
    const SweepPoints& points, const PlanProof& prove, int threads,
    const std::function<void()>& after_each = [] {}, search::KeptOrders* kept = nullptr);

}  // namespace stringline
