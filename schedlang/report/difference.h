// The sources of the difference between two steps. Pure: two timelines and their analyses ->
// terms with the difference as their sum, and the actions with the largest differences.
//
// On every rank the makespan is work plus idle time, so the difference of two makespans is,
// averaged over the ranks, the sum of the differences of each kind of work and of each cause of
// idleness. (Steps on different numbers of ranks are compared by their averages too.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"

namespace stringline {

// The additional (less: negative) time of the second step, on average per rank.
struct DifferenceTerm {
  std::string name;  // "F", "F&B", "idle: gradient"
  bool idle = false;
  double first_ns = 0;
  double second_ns = 0;
  double change_ns() const { return second_ns - first_ns; }
};

// The computations of a kind and stage in both steps, outside groups.
struct ActionDifference {
  ActionKind kind = ActionKind::kForward;
  StageId stage;
  int count = 0;
  double first_ns = 0;  // mean duration
  double second_ns = 0;
  double change_ns() const { return second_ns - first_ns; }
};

struct Difference {
  int64_t first_ns = 0;  // makespans
  int64_t second_ns = 0;
  std::vector<DifferenceTerm> terms;      // the largest change first; they add up
  std::vector<ActionDifference> actions;  // the largest change (times count) first
  int64_t matched = 0;                    // computations in both
  int64_t only_first = 0;                 // and in one step alone
  int64_t only_second = 0;
};

Difference DifferenceOf(const Timeline& first, const Analysis& first_analysis,
                        const Timeline& second, const Analysis& second_analysis);

}  // namespace stringline
