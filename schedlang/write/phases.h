// A word as nested repeats: AAABABCC is 2 A, 2 AB, 2 C.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace stringline::search {

// A sign that comes once, or a body that is repeated.
struct Phase {
  int sign = -1;  // -1: the body
  int64_t times = 1;
  std::vector<Phase> body;
};
using Phases = std::vector<Phase>;

// The word with the fewest signs left, where a repeat counts as much as `overhead` of them. Of
// equal ones that with the most signs in repeats. Bodies of up to 512 signs are found, fewer in
// words above some ten thousand. Cost: word length times the longest body looked for.
Phases PhasesOf(absl::Span<const int> word, int overhead);

// How many signs and repeats there are, repeats counted as `overhead`.
int64_t SizeOf(const Phases& phases, int overhead);

// All signs in order.
std::vector<int> WordOf(const Phase& phase);

}  // namespace stringline::search
