// A parameter's first values, from the model's seed and the parameter's name alone.
//
// Counter-based: element i is a hash of (seed, name, i), so the values depend neither on the cut
// into stages nor on the order in which parameters are filled. With g = 0x9e3779b97f4a7c15, mix the
// scrambling of SplitMix64 without its step, and u(x) the upper 53 bits of x as a number in (0, 1),
// at the middle of their interval:
//
//   key  = mix(mix(seed + g) ^ FNV-1a of the name)       a tied parameter's is that of tied_to
//   x[i] = stddev sqrt(-2 ln u(mix(key + (2i + 1) g))) cos(2 pi u(mix(key + (2i + 2) g)))
#pragma once

#include <cstdint>

#include "stages/stage_program.h"

namespace stringline {

// Fills data[0 .. param.type.elements()). i counts in the whole parameter; for a parameter shared
// out over the expert ranks (Param::expert), `data` is the piece of `expert_rank`.
void Initialize(const Param& param, uint64_t seed, float* data, int expert_rank = 0);

}  // namespace stringline
