// What was predicted beside what happened.
#pragma once

#include <string>

#include "schedlang/timeline.h"
#include "tools/view/terminal.h"

namespace stringline {

// Both timelines as pictures on one scale of time, by how much the step was mispredicted, and
// what of the measured starts is reconstructed.
std::string Compare(const Timeline& measured, const Timeline& simulated, const Picture& picture);

// (simulated - measured) / measured of the makespans; 0 if nothing was measured.
double Misprediction(const Timeline& measured, const Timeline& simulated);

}  // namespace stringline
