// What the actions of a real run cost, so that the simulator can be asked to predict the run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

class MeasuredCosts {
 public:
  explicit MeasuredCosts(const Plan& plan);

  // Takes the durations of one step into the means.
  void Add(const Timeline& timeline);

  // The mean of every stage's F, B, I and W where they ran alone, of every `F a & B b` by stage a,
  // and of all messages; what never ran alone is made up as CostsFrom says (calibrate.h).
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

  std::array<std::vector<Mean>, 4> alone_;  // by kind F B I W, then stage
  std::vector<Mean> forward_backward_;      // by stage of the F
  std::vector<Mean> shared_backward_;       // the same groups by stage of the B
  Mean hop_;
};

}  // namespace stringline
