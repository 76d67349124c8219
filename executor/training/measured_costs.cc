#include "executor/training/measured_costs.h"

#include "schedlang/costs/calibrate.h"

namespace stringline {

CostModel MeasuredCosts::Model() const {
  CostModel costs = CostsFrom(seen_.Typical([](const Mean& mean) { return mean.value_ns(); }));
  PriceGroups(plan_, &costs);
  return costs;
}

}  // namespace stringline
