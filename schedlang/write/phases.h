// A word as nested repeats: AAABABCC is 2 A, 2 AB, 2 C.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace stringline::search {

// A sign that occurs once, or a repeated body.
struct Phase {
  int sign = -1;  // -1: the body
  int64_t times = 1;
  std::vector<Phase> body;
};
using Phases = std::vector<Phase>;

// The word with the fewest signs left, a repeat counting as `overhead` signs. Among equals the word
// with the most signs in repeats. Bodies of up to 512 signs are found, fewer in words above some
// ten thousand. Cost: word length times the longest body considered.
Phases PhasesOf(absl::Span<const int> word, int overhead);

// The number of signs plus `overhead` times the number of repeats.
int64_t SizeOf(const Phases& phases, int overhead);

// All signs in order.
std::vector<int> WordOf(const Phase& phase);

}  // namespace stringline::search
