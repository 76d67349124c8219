// Prediction and measurement beside each other.
#pragma once

#include <string>

#include "schedlang/plan/timeline.h"
#include "tools/view/terminal.h"

namespace stringline {

// Both timelines as pictures on one scale of time, the relative error of the prediction, and the
// reconstructed share of the measured starts.
std::string Compare(const Timeline& measured, const Timeline& simulated, const Picture& picture);

// (simulated - measured) / measured of the makespans; 0 if nothing was measured.
double Misprediction(const Timeline& measured, const Timeline& simulated);

}  // namespace stringline
