// The timeline of a step simulated by the tool.
#pragma once

#include <string>

#include "schedlang/plan/timeline.h"

namespace stringline {

// "1f1b P=2 M=4 --cost F=1,B=2", in the scratch folder.
Timeline SimulatedTimeline(const std::string& words);

}  // namespace stringline
