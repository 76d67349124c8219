// The planner: the best choices of mesh, microbatch, schedule, sharding and recomputation for a
// model on a cluster.
//
// Groups of choices, and then choices, are looked at in the order of an estimate, in rounds of a
// fixed size on all cores. What cannot fit, or cannot be better than what is known by its bound
// (choice_bound.h), is left out; everything else is simulated. A budget of evaluations gives the
// same answer on every machine; a budget of time ends between rounds. At last the optimiser looks
// for better orders of the best few.
//
// With a jitter the best choices of each mesh are simulated again, with the same draws for all, and
// judged by the mean of their steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/stop.h"
#include "schedlang/costs/costs.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/plan_cache.h"
#include "schedlang/tune/step_parts.h"

namespace stringline::tune {

struct TuneRequest {
  BaseCosts base;
  int64_t gpus = 0;
  int64_t global_batch = 1024;  // sequences of a step
  Pins pins;
  size_t shown = 8;            // choices in the answer, of different meshes
  double seconds = 60;         // the last of them for the optimiser
  int64_t evaluations = 0;     // simulations, instead of a time; 0: as many as that allows
  size_t improved = 3;         // choices for whose orders the optimiser looks
  int64_t jitter = 0;          // of durations, a standard deviation in millionths; 0: none
  const Stop* stop = nullptr;  // a wish to end soon. May be null
  int threads = 0;             // 0: one for each core
};

// A choice that was simulated.
struct Outcome {
  Choice choice;
  int64_t step_ns = 0;
  int64_t bytes = 0;  // of the fullest rank
  StepParts parts;    // of those in the answer
  // An order of the optimiser's, in place of the schedule's. Null: the schedule's own.
  std::shared_ptr<const PreparedPlan> found = nullptr;
};

inline bool IsShorter(const Outcome& a, const Outcome& b) { return a.step_ns < b.step_ns; }

// The choice that is nearest to fitting, where none does.
struct NearestMiss {
  Choice choice;
  int64_t bytes = 0;  // at least, of its fullest rank
  std::string what;   // the largest of them: "weights 20.0 GiB, …"
};

struct Counts {
  int64_t considered = 0;  // choices
  int64_t by_memory = 0;   // of them, those whose least bytes do not fit
  int64_t by_bound = 0;    // those whose bound is no better than what is known
  int64_t refused = 0;     // those whose schedule or costs admit no plan
  int64_t too_large = 0;   // those whose order does not fit
  int64_t simulated = 0;
  int64_t open = 0;  // those that the budget left over
};

struct TunedChoices {
  std::vector<Outcome> best;       // of each mesh, the best first
  std::vector<Outcome> simulated;  // all that fit, in the order of their simulation
  int64_t bound_ns = 0;            // no choice has a shorter step, in the order of its schedule
  Counts counts;
  int64_t capacity = 0;  // bytes of a GPU
  int64_t gpus = 0;
  int64_t tokens = 0;               // of a step
  double operations = 0;            // of the model, for a step
  double peak = 0;                  // operations of a GPU, a second
  std::optional<NearestMiss> miss;  // where `best` is empty
  std::string refusal;              // the first reason why a choice admits no plan; "": none

  // A second and GPU, of a step that takes so long.
  double TokensPerGpu(int64_t step_ns) const {
    return static_cast<double>(tokens) / (static_cast<double>(step_ns) * 1e-9) /
           static_cast<double>(gpus);
  }
  // Model FLOPs utilization: the model's operations over those that GPUs could do meanwhile.
  double UtilizationOf(int64_t step_ns) const {
    return operations / (static_cast<double>(step_ns) * 1e-9) / (peak * static_cast<double>(gpus));
  }
};

struct TuneProgress {
  Counts counts;
  int64_t best_ns = 0;  // 0: none yet
};
using WatchTune = std::function<void(const TuneProgress&)>;

// Errors: those of ChoiceGroups, and of costs that fit no choice.
absl::StatusOr<TunedChoices> Tune(const TuneRequest& request, const WatchTune& watch);

}  // namespace stringline::tune
