// `then defer W by e`: every B becomes an I, and its weight gradient comes later.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

// The weight gradient of a rank's j-th input gradient follows the action (with all its parts) with
// the (j + late[rank])-th input gradient; the rest come at the end of the rank. Input gradients
// with weight gradients in the plan count too, but their weight gradients stay in place. `late` is
// not negative. A new weight gradient has the place and the iteration of its B.
Plan DeferWeightGradients(const Plan& plan, const std::vector<int64_t>& late);

}  // namespace stringline
