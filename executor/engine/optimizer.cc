#include "executor/engine/optimizer.h"

#include <cmath>

namespace stringline {

double SumOfSquares(absl::Span<const float> values) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += double{values[i + lane]} * values[i + lane];
    }
  }
  double sum = 0;
  for (double lane_sum : sums) sum += lane_sum;
  for (size_t i = whole; i < values.size(); ++i) sum += double{values[i]} * values[i];
  return sum;
}

void UpdateAdamW(const AdamW& settings, int64_t step, double scale, bool decays,
                 absl::Span<float> params, absl::Span<float> grads, absl::Span<float> m,
                 absl::Span<float> v) {
  const double t = static_cast<double>(step);
  const auto m_scale = static_cast<float>(1 / (1 - std::pow(settings.beta1, t)));
  const auto v_scale = static_cast<float>(1 / (1 - std::pow(settings.beta2, t)));
  const auto rate = static_cast<float>(settings.learning_rate);
  const auto keep =
      static_cast<float>(1 - (decays ? settings.learning_rate * settings.weight_decay : 0.0));
  const auto beta1 = static_cast<float>(settings.beta1);
  const auto beta2 = static_cast<float>(settings.beta2);
  const auto epsilon = static_cast<float>(settings.epsilon);
  const auto grad_scale = static_cast<float>(scale);
  for (size_t i = 0; i < params.size(); ++i) {
    const float g = grad_scale * grads[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    params[i] = keep * params[i] - rate * (m_scale * m[i]) / (std::sqrt(v_scale * v[i]) + epsilon);
    grads[i] = 0;
  }
}

void UpdateBalance(double rate, absl::Span<float> bias, absl::Span<float> load) {
  double mean = 0;
  for (const float tokens : load) mean += tokens;
  mean /= static_cast<double>(load.size());
  for (size_t e = 0; e < load.size(); ++e) {
    const double off = mean - load[e];
    if (off != 0) bias[e] += static_cast<float>(off > 0 ? rate : -rate);
    load[e] = 0;
  }
}

void UpdateAverage(double momentum, int64_t microbatches, absl::Span<float> values,
                   absl::Span<float> sums) {
  const auto count = static_cast<double>(microbatches);
  const double share = 1 - std::pow(1 - momentum, count);
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    values[i] = static_cast<float>(value + share * (sums[i] / count - value));
    sums[i] = 0;
  }
}

}  // namespace stringline
