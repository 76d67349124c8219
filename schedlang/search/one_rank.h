// One rank by itself: its letters with heads and tails, one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/relaxed.h"

namespace stringline::search {

// The least end of the rank's letters, each with its tail, if each may be interrupted: at every
// moment the one with the longest tail runs (Jackson 1955; Carlier and Pinson 1989). Letters that
// are done in `frontier` are left out. Cost: n log n for n letters.
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

// At least `value` from time 0 on: nothing of `inside` can begin before `begin`, and behind it
// `behind` goes by.
struct Window {
  int64_t value = 0;
  int64_t begin = 0;
  int64_t inside = 0;
  int64_t behind = 0;
};

// The best of the windows of the rank, from the beginning. In a window lies what is neither begun
// before it nor ended behind it. What can be, heads and tails say, and memory does: F begun before
// a time hold what has not been released by then, and what B, I and W release behind a time is held
// at it. Both are knapsacks of letters, and may be filled with fractions of them. Cost: linear in
// letters, and some thousand windows.
Window BestWindow(const Relaxed& relaxed, const Heads& heads, const Tails& tails, int rank);

}  // namespace stringline::search
