// The plan that traces performed: every rank's actions, in order. The ranks of stages and the
// number of microbatches follow.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan/plan.h"
#include "schedlang/torch/rank_trace.h"
#include "schedlang/torch/trace_steps.h"

namespace stringline {

struct TracedPlan {
  Plan plan;                    // lowered, and right
  std::vector<uint32_t> range;  // by action: index into its rank's RankTrace::actions
};

// The plan of these steps, one trace per rank; ranks are numbered as the traces are. The names of
// the ranges are the cells of torch's comms form (torch/torch_csv.h), and are read as such. Errors,
// all InvalidArgument that name a file: a range with another name; a stage in two traces (copies of
// a pipeline) or in none; a plan that the checker refuses.
absl::StatusOr<TracedPlan> PlanOfTraces(const std::vector<RankTrace>& traces,
                                        const std::vector<TraceStep>& steps);

}  // namespace stringline
