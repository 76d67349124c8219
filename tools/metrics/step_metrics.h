// A step of a running training in figures: the loss, the speed, and of every rank how long it
// computed, for whom it waited, and its memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/available_memory.h"
#include "executor/run/train.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"

namespace stringline {

struct RankMetrics {
  std::string name;          // "rank 3 on gpu1"
  int64_t step_ns = 0;       // from the beginning of the step to the rank's last end
  double busy = 0;           // the share of the whole step in which it computes
  int64_t waits_ns = 0;      // the rest of the step
  int waits_for = -1;        // the rank of the mesh for which it waited longest; -1: for none
  int64_t waits_for_ns = 0;  // so long
  int64_t bytes = 0;         // allocated
};

// Actions of a rank that take longer than those of its equals (slow_actions.h).
struct SlowAction {
  int rank = 0;  // of the mesh
  int stage = 0;
  std::string action;  // "F", "B", "I", "W", or of a group "F&B"
  double ratio = 1;    // its median time over that of its equals
  int64_t since = 0;   // the first of the steps in which it was so
};

struct StepMetrics {
  TrainStep step;
  int64_t steps = 0;    // of the whole run
  int64_t wall_ns = 0;  // of the step, with data and update; of several, the mean
  double tokens_per_second = 0;
  int64_t makespan_ns = 0;
  double bubble = 0;                            // the mean idle share of a rank
  std::array<double, kIdleCauses> causes = {};  // the bubble by cause
  std::vector<RankMetrics> ranks;               // of the mesh
  std::optional<double> checkpoint_age_s;       // since the last one was taken
  std::vector<SlowAction> slow;
};

// Fills in what timelines tell: `measured` of every coordinate of the mesh, in their order. Ranks
// take their waits from the plan that the timelines performed.
void AddTimelines(const Plan& plan, const Wiring& links, absl::Span<const Timeline> measured,
                  StepMetrics* metrics);

}  // namespace stringline
