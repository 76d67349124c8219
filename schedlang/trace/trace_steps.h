// The steps that a trace holds. They are those of the ranges ProfilerStep#N, by which they are
// called. Where there is none, or one holds an action twice, a step begins with every action that
// the step before has performed already, and they count from 0.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/trace/rank_trace.h"

namespace stringline {

struct TraceStep {
  int number = 0;
  size_t first = 0, end = 0;       // RankTrace::actions[first] .. [end - 1]
  int64_t from_ns = 0, to_ns = 0;  // when the host was at it: what it began and launched then
};

// In order, those with at least one action.
std::vector<TraceStep> StepsOf(const RankTrace& trace);

// The step of that number of each rank; or, where none is asked for, the last that is whole: on
// every rank, with as many actions there as any. *whole: the numbers of all that are. Errors:
// InvalidArgument for a number that some rank does not have or has only a part of, and where no
// step is whole.
absl::StatusOr<std::vector<TraceStep>> ChooseStep(const std::vector<RankTrace>& traces,
                                                  std::optional<int> asked,
                                                  std::vector<int>* whole);

}  // namespace stringline
