// The measured costs of a real run's actions, so that the simulator can predict the run.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/costs/calibrate.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

class MeasuredCosts {
 public:
  // The plan outlives the object.
  explicit MeasuredCosts(const Plan& plan) : plan_(plan) {}

  // Keeps the durations of one step of the plan.
  void Add(const Timeline& timeline);

  // The typical duration of every stage's F, B, I and W that ran alone, of its parts and
  // collectives, and of all messages: the mean over the typical steps and over the actions (parts,
  // messages). Typical are the steps without the shortest and the longest ones, a quarter each: so
  // a step that was disturbed does not count, and a duration that is now and then long does, since
  // every step has such ones. The deviations of parts become CostModel::part_jitter. Costs of
  // actions that never ran alone are estimated as by CostsFrom (calibrate.h). An `F a & B b` costs
  // the time of its parts in the order of the plan, or without parts as measured over the pairs
  // with stage a.
  CostModel Model() const;

 private:
  struct Step {
    int64_t makespan_ns = 0;
    TypicalDurations durations;  // means over the step's actions
    double part_jitter = 0;      // CostModel::part_jitter, as a share
  };

  const Plan& plan_;
  std::vector<Step> steps_;
};

}  // namespace stringline
