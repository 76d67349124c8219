// What the steps of a run gave so far: what a run that is resumed goes on with.
#pragma once

#include <cstdint>
#include <vector>

namespace stringline {

// By step, from the first one on.
struct StepHistory {
  std::vector<double> losses_nats;  // mean per token
  std::vector<double> grad_norms;   // before clipping
  std::vector<double> learning_rates;
  int64_t dropped = 0;  // slots that no expert took, of all steps
  friend bool operator==(const StepHistory&, const StepHistory&) = default;
};

}  // namespace stringline
