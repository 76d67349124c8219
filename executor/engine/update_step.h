// The numbers of an update: plain data in host memory, which a GPU's kernel can read.
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

// The update of all parameters in a step.
struct UpdateStep {
  AdamW adamw;
  int64_t number = 0;  // the step's, from 1
  double scale = 1;    // for gradients
  double balance_rate = 0;
  int64_t microbatches = 1;  // of all copies: those of an average (Update::kAverage)
};

}  // namespace stringline
