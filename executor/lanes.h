// Which of its rank's compute streams performs a part of a group.
//
// The first part of a group runs on lane 0 and each further part on a lane of its own, so that
// `F a & B b` really runs at the same time. Two parts that add into the gradients of one stage
// share a lane and run in the order written.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan.h"

namespace stringline {

// One entry per action of the plan; 0 for sends and receives.
std::vector<uint8_t> LanesOf(const Plan& plan);

// How many lanes every rank has: at least one.
std::vector<int> LaneCounts(const Plan& plan, const std::vector<uint8_t>& lanes);

}  // namespace stringline
