// The share of a step's all-to-alls that hides under computation, as tables for people and as JSON.
#pragma once

#include <ostream>

#include "schedlang/report/network_time.h"
#include "tools/io/json.h"

namespace stringline {

// A line for every rank and a line for all, and the idle parties during exposed time.
void PrintNetwork(const NetworkTimes& times, std::ostream& out);

// Adds to a report: `network_us`, `exposed_us` and `still_us` (by idle party), of all ranks and, in
// `ranks`, of each.
void AddNetwork(const NetworkTimes& times, Json* report);

}  // namespace stringline
