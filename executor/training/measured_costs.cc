#include "executor/training/measured_costs.h"

#include <utility>
#include <vector>

#include "schedlang/costs/calibrate.h"
#include "schedlang/costs/median.h"

namespace stringline {

int64_t MeasuredCosts::TypicalOf(const Samples& samples) const {
  if (samples.empty()) return 0;
  int64_t sum_ns = 0;
  for (const auto& [place, of_steps] : samples) {
    std::vector<int64_t> by_step = of_steps;
    by_step.resize(steps_, 0);
    sum_ns += MedianOf(std::move(by_step));
  }
  return sum_ns / static_cast<int64_t>(samples.size());
}

CostModel MeasuredCosts::Model() const {
  CostModel costs =
      CostsFrom(seen_.Typical([this](const Samples& samples) { return TypicalOf(samples); }));
  PriceGroups(plan_, &costs);
  return costs;
}

}  // namespace stringline
