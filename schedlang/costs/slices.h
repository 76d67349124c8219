// Costs of slices: a slice's share of what its whole microbatch takes. Products, messages and
// values are shared out evenly; attention is not, since later slices read the keys of all before
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/formula.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Turns costs of whole microbatches into those of slices, for a plan that has them. A message's
// latency stays. The shares of attention are those of `attention`, in millionths by stage, or of
// the formulas. Errors: costs of parts.
absl::Status CutIntoSlices(const Plan& plan, const std::vector<StageFormula>& formulas,
                           const std::vector<int64_t>& attention, CostModel* costs);

}  // namespace stringline
