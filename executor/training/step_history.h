// The figures of a run's steps so far, with which a resumed run continues.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace stringline {

// By step, from the first.
struct StepHistory {
  std::vector<double> losses_nats;  // mean per token
  std::vector<double> grad_norms;   // before clipping
  std::vector<double> learning_rates;
  std::map<int64_t, double> validations_nats;  // by the step behind which it was evaluated
  int64_t dropped = 0;                         // slots dropped by full experts, over all steps
  friend bool operator==(const StepHistory&, const StepHistory&) = default;
};

}  // namespace stringline
