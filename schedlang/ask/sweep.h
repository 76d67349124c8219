// A schedule with many parameters: counts the plans that are proven, those refused by a `require`
// of the schedule, and the wrong ones.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/text/ast.h"

namespace stringline {

enum class SweepVerdict : uint8_t { kRight, kRefused, kWrong };

struct SweepResult {
  std::vector<SweepVerdict> verdicts;  // by point
  // A refusal by a `require`: its message, its count, and its first point.
  struct Refusal {
    std::string message;
    size_t count = 0;
    size_t first = 0;
  };
  std::vector<Refusal> refusals;  // in the order of their first points
  std::optional<size_t> first_wrong;
  Diagnostics findings;  // at the first wrong point

  size_t Count(SweepVerdict verdict) const;
};

// The judgement of an elaborated plan: false after a finding.
using PlanProof = std::function<bool(const Plan& plan, Diagnostics* diagnostics)>;

// The parameters of a point, after the fixed parameters.
std::vector<Parameter> ParametersAt(const SweepPoints& points, size_t point,
                                    const std::vector<Parameter>& fixed);

// Elaborates and proves the plan of every point on `threads` threads; the result does not depend on
// their number. `prove` is called from all of them, and `after_each` after every plan. `kept` (may
// be null): orders found before. Error: ResourceExhausted if a plan does not fit into memory.
absl::StatusOr<SweepResult> Sweep(
    const ast::File& file, const std::string& schedule, const std::vector<Parameter>& fixed,
    const SweepPoints& points, const PlanProof& prove, int threads,
    const std::function<void()>& after_each = [] {}, search::KeptOrders* kept = nullptr);

}  // namespace stringline
