// Dropout (Srivastava et al. 2014), with masks that are made again wherever they are needed.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/philox.h"

namespace stringline::cpu {

// y = x m / (1 - p), m a mask of zeros and ones (philox.h); x 0 for p = 1. NaN stays NaN, also
// where it is dropped.                                  x (..), key I32 (4) -> y (..), overwritten
void Run_kDropout(const Node& node, In in, Out out, Accumulate, void*) {
  constexpr double kWords = 4294967296.0;  // 2^32
  const double p = node.attributes[0], least = std::ceil(p * kWords);
  // A `least` of 2^32 is no word, and drops all.
  const float kept = least < kWords ? static_cast<float>(1 / (1 - p)) : 0.0f;
  const auto threshold = static_cast<uint32_t>(std::min(least, kWords - 1));
  const auto site = static_cast<uint32_t>(node.attributes[1]);
  uint32_t key[4];
  std::copy_n(in[1].i32(), 4, key);
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  const int64_t count = in[0].type->elements();
  const auto drop = [&](int64_t first, int numbers) {
    const PhiloxWords words =
        Philox({static_cast<uint32_t>(first / 4), site, key[2], key[3]}, key[0], key[1]);
    for (int i = 0; i < numbers; ++i) {
      y[first + i] = x[first + i] * (words[i] >= threshold ? kept : 0.0f);
    }
  };
  const int64_t whole = count / 4 * 4;
  for (int64_t first = 0; first < whole; first += 4) drop(first, 4);
  if (whole < count) drop(whole, static_cast<int>(count - whole));
}

}  // namespace stringline::cpu
