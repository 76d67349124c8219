// What the actions of a real run cost, so that the simulator can be asked to predict the run.
#pragma once

#include <cstdint>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/duration_table.h"
#include "schedlang/timeline.h"

namespace stringline {

class MeasuredCosts {
 public:
  // Of a plan that outlives this.
  explicit MeasuredCosts(const Plan& plan) : plan_(plan), seen_(plan.stages.size()) {}

  // Takes the durations of one step into the means.
  void Add(const Timeline& timeline) { seen_.Add(timeline); }

  // The mean of every stage's F, B, I and W where they ran alone, of its parts and collectives, and
  // of all messages; what never ran alone is made up as CostsFrom says (calibrate.h). An
  // `F a & B b` takes what it does by its parts in the order of the plan, or without parts the mean
  // of those by stage a.
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
