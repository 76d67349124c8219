// AdamW, as Loshchilov and Hutter (arXiv 1711.05101) state it.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "executor/engine/update_step.h"

namespace stringline {

// A parameter as the optimiser sees it.
struct ParamBlock {
  absl::Span<float> values, gradient;
  absl::Span<float> m, v;  // moments
  // The copy of a BF16 parameter that graphs read: `values`, rounded to nearest even, as bits of
  // BF16. Empty for an F32 parameter.
  absl::Span<uint16_t> working;
  bool balances = false;  // updated by UpdateBalance instead of UpdateAdamW
  double momentum = 0;    // of a running average, updated by UpdateAverage; 0: none
  bool decays = false;
  bool counts = false;  // included in the norm of all gradients
};

// In double precision, in a fixed order that depends on the length alone.
double SumOfSquares(absl::Span<const float> values);

// One update of one parameter; g = scale * grads:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   p -= rate (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon) + decay p)
// `step` counts from 1. The weight decay applies only where `decays` is set. Sets grads to zero.
void UpdateAdamW(const AdamW& settings, int64_t step, double scale, bool decays,
                 absl::Span<float> params, absl::Span<float> grads, absl::Span<float> m,
                 absl::Span<float> v);

// Updates a router's bias: b[e] += rate sign(mean over all experts of load - load[e]); then every
// load is set to zero (Update::kBalance).
void UpdateBalance(double rate, absl::Span<float> bias, absl::Span<float> load);

// Updates a running average by the sums of a statistic over so many microbatches, which are then
// set to zero (Update::kAverage).
void UpdateAverage(double momentum, int64_t microbatches, absl::Span<float> values,
                   absl::Span<float> sums);

}  // namespace stringline
