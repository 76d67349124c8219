// The steps of a trace: the ranges ProfilerStep#N, numbered N. If there are none, or a range holds
// an action twice, a step begins with every action that the current step has performed already, and
// steps count from 0.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {

struct TraceStep {
  int number = 0;
  size_t first = 0, end = 0;       // RankTrace::actions[first] .. [end - 1]
  int64_t from_ns = 0, to_ns = 0;  // the host's time of starts and launches
};

// In order, those with at least one action.
std::vector<TraceStep> StepsOf(const RankTrace& trace);

// The step with that number on each rank; without a number, the last whole step: on every rank,
// with as many actions as any step there. *whole: the numbers of all whole steps. Errors:
// InvalidArgument for a number that a rank lacks or has only in part, and if no step is whole.
absl::StatusOr<std::vector<TraceStep>> ChooseStep(const std::vector<RankTrace>& traces,
                                                  std::optional<int> asked,
                                                  std::vector<int>* whole);

}  // namespace stringline
