// A parameter's first values, from the model's seed and the parameter's name alone.
//
// Counter-based: element i is a hash of (seed, name, i), so the values depend neither on the cut
// into stages nor on the order in which parameters are filled.
#pragma once

#include <cstdint>

#include "stages/stage_program.h"

namespace stringline {

// Fills data[0 .. param.type.elements()).
void Initialize(const Param& param, uint64_t seed, float* data);

}  // namespace stringline
