// Orders that repeat the pattern of one microbatch at an interval: building blocks (Qi et al. 2024,
// "Pipeline Parallelism with Controllable Memory"), found by modulo scheduling (Rau 1994,
// "Iterative Modulo Scheduling").
//
// A microbatch of every pipe goes its way through the stages. Each F, and each B or I, takes the
// earliest time at which its rank is free in every interval. So the pattern, repeated, uses no rank
// twice; and a rank holds of a stage as many microbatches as there are intervals between the
// stage's F and the release of its memory. Delays make the way longer: more memory, and more
// forwards ahead of the first gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct BuildingBlock {
  double stretch = 1;          // the interval, in works of the busiest rank on a microbatch
  std::vector<int64_t> delay;  // by letter: nanoseconds between the letter's needs and its start
};

// By rank, all its F and all its letters of `back` (B or I), in the order of the repeated pattern.
// Empty if the letters of some rank do not fit into the interval, or if a rank exceeds its capacity
// although every W follows its I at once. Cost: n log n for n letters.
std::vector<std::vector<Letter>> SequencesOf(const Problem& problem, const BuildingBlock& block,
                                             ActionKind back);

// The work of the busiest rank on a microbatch of all its stages.
int64_t WorkOfBlock(const Problem& problem, ActionKind back);

}  // namespace stringline::search
