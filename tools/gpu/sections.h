// What gpu_check looks at. A section calls CUDA, so it runs in a process of its own; the tests run
// them beside a stand-in for CUDA's runtime.
#pragma once

#include <vector>

#include "tools/gpu/run_sections.h"

namespace stringline {

// Streams, events, copies, capture: what everything else stands on; and the rate of a copy.
void CheckDevice(CheckRows* rows);

// In the order in which they are run.
std::vector<CheckSection> AllSections();

}  // namespace stringline
