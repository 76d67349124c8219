// The measured costs of a real run's actions, so that the simulator can predict the run.
#pragma once

#include <cstdint>

#include "schedlang/costs/costs.h"
#include "schedlang/costs/duration_table.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

class MeasuredCosts {
 public:
  // The plan outlives the object.
  explicit MeasuredCosts(const Plan& plan) : plan_(plan), seen_(plan.stages.size()) {}

  // Takes the durations of one step into the means.
  void Add(const Timeline& timeline) { seen_.Add(timeline); }

  // The mean of every stage's F, B, I and W that ran alone, of its parts and collectives, and of
  // all messages; costs of actions that never ran alone are estimated as by CostsFrom
  // (calibrate.h). An `F a & B b` costs the time of its parts in the order of the plan, or without
  // parts the mean over the pairs with stage a.
  CostModel Model() const;

 private:
  struct Mean {
    int64_t sum_ns = 0;
    int64_t count = 0;
    void Add(int64_t value_ns) {
      sum_ns += value_ns;
      ++count;
    }
    int64_t value_ns() const { return count == 0 ? 0 : sum_ns / count; }
  };

  const Plan& plan_;
  DurationTable<Mean> seen_;
};

}  // namespace stringline
