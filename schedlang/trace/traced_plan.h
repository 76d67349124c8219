// The plan that traces performed: what every rank did, in the order in which it did it. Where
// stages live and how many microbatches there are follows from that.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/trace/rank_trace.h"
#include "schedlang/trace/trace_steps.h"

namespace stringline {

struct TracedPlan {
  Plan plan;                    // lowered, and right
  std::vector<uint32_t> range;  // by action: index into its rank's RankTrace::actions
};

// Of these steps of one trace a rank; ranks of the plan are numbered as the traces are. The names
// of the ranges are the cells of torch's comms form (formats/torch_csv.h), and are read as such.
// Errors, all InvalidArgument that name a file: a range of another name; a stage in two traces
// (those are copies of one pipeline) or in none; a plan that the checker refuses.
absl::StatusOr<TracedPlan> PlanOfTraces(const std::vector<RankTrace>& traces,
                                        const std::vector<TraceStep>& steps);

}  // namespace stringline
