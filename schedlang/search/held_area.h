// The least time in which ranks can hold what microbatches must be held for, if any stages may
// recompute: memory times time is an area, and each rank has its capacity times the makespan
// (Little 1961). Recomputing makes the area less and the work more, so the bound is the value of a
// knapsack, relaxed to fractions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

using Area = __int128;  // memory (as in StageWork) times nanoseconds

// A stage, or a layer of any stage, with all its microbatches.
struct HeldWork {
  int64_t work = 0;   // at least, without recomputing
  int64_t again = 0;  // at least, to recompute
  Area area = 0;      // at least, from F until all is released
  Area recomputed = 0;
};

// By stage. `none` and `all` are the problems in which no stage and every stage recomputes; their
// stages are the same. A microbatch is held for as long as it needs to the end of its pipe and
// back, by the least times and without messages. With `is_divided`, stages stand for layers: those
// of a stage that recomputes keep nothing of their own between F and the backward.
std::vector<HeldWork> HeldWorkOf(const Problem& none, const Problem& all, bool is_divided);

// The area of a microbatch from the start of its B or I, which take so long, until all is released.
Area AreaOfBack(const Problem& problem, const StageWork& stage, int64_t whole, int64_t input);

// The least time that suffices for the work, the waits and the area together, of so many ranks with
// `capacity` in all. `waits`: idle time, summed over the ranks. 0 of nothing; kNoLimit where no
// time suffices.
int64_t LeastTimeToHold(absl::Span<const HeldWork> held, int ranks, Area capacity, int64_t waits);

// The largest such time of a rank alone; rank -1 where none needs its memory.
struct HeldTime {
  int rank = -1;
  int64_t work = 0;
  int64_t time = 0;
};
HeldTime LongestHeldTime(const Problem& none, const Problem& all);

}  // namespace stringline::search
