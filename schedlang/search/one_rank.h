// Bounds for a single rank: its letters with heads and tails, one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/relaxed.h"

namespace stringline::search {

// The least latest end of the rank's letters, each with its tail, if letters may be interrupted: at
// every moment the letter with the longest tail runs (Jackson 1955; Carlier and Pinson 1989).
// Letters done in `frontier` are left out. Cost: n log n for n letters.
struct TimedLetter {
  int64_t head = 0;
  int64_t time = 0;
  int64_t tail = 0;
};
struct OneRankScratch {
  std::vector<TimedLetter> letters, waiting;
};
int64_t InterruptedEnd(const Relaxed& relaxed, const Frontier& frontier, const Heads& heads,
                       const Tails& tails, int rank, OneRankScratch* scratch);

// A bound of `value` from time 0 on: the work `inside` begins at `begin` or later, and `behind`
// passes after it.
struct Window {
  int64_t value = 0;
  int64_t begin = 0;
  int64_t inside = 0;
  int64_t behind = 0;
};

// The best window of the rank, from the beginning. A window contains the letters that are neither
// begun before it nor ended behind it. Heads and tails limit those exceptions, and so does memory:
// F begun before a time hold all that has not been released by then, and all that B, I and W
// release behind a time is held at it. Both are knapsacks of letters, relaxed to fractions. Cost:
// linear in letters, and some thousand windows.
Window BestWindow(const Relaxed& relaxed, const Heads& heads, const Tails& tails, int rank);

}  // namespace stringline::search
