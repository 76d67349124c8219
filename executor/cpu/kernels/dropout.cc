// Dropout (Srivastava et al. 2014), with masks that are made again wherever they are needed.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/philox.h"

namespace stringline::cpu {

// y = x m / (1 - p), m a mask of zeros and ones (philox.h); x 0 for p = 1. NaN stays NaN, also
// where it is dropped.                                  x (..), key I32 (4) -> y (..), overwritten
void Run_kDropout(const Node& node, In in, Out out, Accumulate, void*) {
  constexpr int kLanes = 16;
  constexpr double kWords = 4294967296.0;  // 2^32
  const double p = node.attributes[0], least = std::ceil(p * kWords);
  // A `least` of 2^32 is no word, and drops all.
  const float kept = least < kWords ? static_cast<float>(1 / (1 - p)) : 0.0f;
  const auto threshold = static_cast<uint32_t>(std::min(least, kWords - 1));
  const auto site = static_cast<uint32_t>(node.attributes[1]);
  const auto* const key = reinterpret_cast<const uint32_t*>(in[1].i32());
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  const int64_t count = in[0].type->elements();
  for (int64_t first = 0; first < count; first += 4 * kLanes) {
    uint32_t words[4][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      words[0][lane] = static_cast<uint32_t>(first / 4 + lane);
      words[1][lane] = site;
      words[2][lane] = key[2];
      words[3][lane] = key[3];
    }
    Philox(words, key[0], key[1]);
    const int64_t end = std::min<int64_t>(count - first, 4 * kLanes);
    for (int64_t i = 0; i < end; ++i) {
      y[first + i] = x[first + i] * (words[i % 4][i / 4] >= threshold ? kept : 0.0f);
    }
  }
}

}  // namespace stringline::cpu
