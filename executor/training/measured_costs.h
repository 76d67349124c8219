// The measured costs of a real run's actions, so that the simulator can predict the run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/costs/duration_table.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

class MeasuredCosts {
 public:
  // The plan outlives the object.
  explicit MeasuredCosts(const Plan& plan) : plan_(plan), seen_(plan.stages.size()) {}

  // Keeps the durations of one step of the plan.
  void Add(const Timeline& timeline) {
    seen_.Add(timeline);
    ++steps_;
  }

  // The typical duration of every stage's F, B, I and W that ran alone, of its parts and
  // collectives, and of all messages. Of each action (part, message) it is the median over the
  // steps, so that a step that was disturbed does not count; of several actions the mean, so that
  // those later in a step may take longer. Costs of actions that never ran alone are estimated as
  // by CostsFrom (calibrate.h). An `F a & B b` costs the time of its parts in the order of the
  // plan, or without parts as measured over the pairs with stage a.
  CostModel Model() const;

 private:
  // By place, the durations in the steps in which it took time.
  struct Samples : std::map<uint64_t, std::vector<int64_t>> {
    void Add(uint64_t place, int64_t ns) { (*this)[place].push_back(ns); }
  };
  int64_t TypicalOf(const Samples& samples) const;

  const Plan& plan_;
  DurationTable<Samples> seen_;
  int steps_ = 0;
};

}  // namespace stringline
