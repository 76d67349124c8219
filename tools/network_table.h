// How much of a step's all-to-alls hides under computation, as tables for people and as JSON.
#pragma once

#include <ostream>

#include "schedlang/sim/network_time.h"
#include "tools/json.h"

namespace stringline {

// A line for every rank and one for all, and what stands still under what is exposed.
void PrintNetwork(const NetworkTimes& times, std::ostream& out);

// Adds to a report: `network_us`, `exposed_us` and `still_us` (by what stands still), of all ranks
// and, in `ranks`, of each.
void AddNetwork(const NetworkTimes& times, Json* report);

}  // namespace stringline
