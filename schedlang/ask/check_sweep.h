// A schedule with many parameters: counts the plans that are proven, those refused by a `require`
// of the schedule, and the wrong ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/sweep.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class SweepVerdict : uint8_t { kRight, kRefused, kWrong };

struct CheckedSweep {
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

// The judgement of an elaborated plan: false after a finding. Called from all threads.
using PlanProof = std::function<bool(const Plan& plan, Diagnostics* diagnostics)>;

// Proves every plan of a sweep of one schedule. The result does not depend on the number of
// threads; these, `after_each` and errors as of ForEachPlan.
absl::StatusOr<CheckedSweep> CheckAll(
    const Sweep& sweep, const PlanProof& prove, int threads = 0,
    const std::function<bool()>& after_each = [] { return true; });

}  // namespace stringline
