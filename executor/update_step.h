// The numbers of an update: plain, so that a kernel of a GPU can read them where the host wrote
// them.
#pragma once

#include <cstdint>

namespace stringline {

struct AdamW {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

// What a step does to all parameters.
struct UpdateStep {
  AdamW adamw;
  int64_t number = 0;  // of the step, from 1
  double scale = 1;    // of gradients
  double balance_rate = 0;
};

}  // namespace stringline
