// Where the difference between two steps comes from. Pure: two timelines and their analyses ->
// terms that add up, and the actions that differ most.
//
// On every rank the makespan is work plus idle time, so the difference of two makespans is,
// averaged over the ranks, the sum of the differences of each kind of work and of each cause of
// idleness. (Steps on different numbers of ranks are compared by their averages too.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/sim/analysis.h"
#include "schedlang/timeline.h"

namespace stringline {

// What the second step spends more (less: negative) on average per rank.
struct DifferenceTerm {
  std::string name;  // "F", "F&B", "idle: gradient"
  bool idle = false;
  double first_ns = 0;
  double second_ns = 0;
  double change_ns() const { return second_ns - first_ns; }
};

// The computations of one kind and stage that are in both steps, outside groups.
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
  int64_t only_first = 0;                 // and in one alone
  int64_t only_second = 0;
};

Difference DifferenceOf(const Timeline& first, const Analysis& first_analysis,
                        const Timeline& second, const Analysis& second_analysis);

}  // namespace stringline
