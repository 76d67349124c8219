// `then defer W by e`: every B becomes an I, and its weight gradient comes later.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan.h"

namespace stringline {

// The weight gradient of a rank's j-th input gradient follows the action (with all its parts) that
// holds the (j + late[rank])-th; the rest come at the end of the rank. Input gradients whose weight
// gradients the plan does itself count, and keep them where they are. `late` is not negative. A new
// weight gradient has the place and the iteration of the B it comes from.
Plan DeferWeightGradients(const Plan& plan, const std::vector<int64_t>& late);

}  // namespace stringline
