// The norm of each channel by its statistics over all sequences and places.
#include <cmath>

#include "executor/cpu/kernels/kernels.h"

namespace stringline::cpu {
namespace {

// A tensor (B,C,..): each channel is B runs of numbers in a row.
struct Channels {
  explicit Channels(const Type& type)
      : batch(type.shape[0]), channels(type.shape[1]), run(type.elements() / batch / channels) {}
  int64_t count() const { return batch * run; }

  // Calls visit(first, end) with the indices of each run of a channel.
  template <typename Visit>
  void WalkRuns(int64_t channel, Visit visit) const {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t first = (b * channels + channel) * run;
      visit(first, first + run);
    }
  }

  const int64_t batch, channels, run;
};

// The mean, and the sum of squared distances from it, in double.
struct Statistics {
  Statistics(const Channels& of, int64_t channel, const float* x) {
    of.WalkRuns(channel, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) mean += static_cast<double>(x[i]);
    });
    mean /= static_cast<double>(of.count());
    of.WalkRuns(channel, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const double off = static_cast<double>(x[i]) - mean;
        squares += off * off;
      }
    });
  }
  double mean = 0, squares = 0;
};

}  // namespace

// y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + epsilon)
//
// x (B,C,..), gamma (C), beta (C), two averages that are not read -> y, mean (C), rstd (C), all
// overwritten.
void Run_kBatchNorm(const Node& node, In in, Out out, Accumulate, void*) {
  const Channels of(*in[0].type);
  const float* const x = in[0].f32();
  float* const y = out[0].f32();
  for (int64_t c = 0; c < of.channels; ++c) {
    const Statistics statistics(of, c, x);
    const auto mean = static_cast<float>(statistics.mean);
    const auto rstd = static_cast<float>(
        1 / std::sqrt(statistics.squares / static_cast<double>(of.count()) + node.attributes[0]));
    const float gamma = in[1].f32()[c] * rstd, beta = in[2].f32()[c];
    of.WalkRuns(c, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) y[i] = (x[i] - mean) * gamma + beta;
    });
    out[1].f32()[c] = mean;
    out[2].f32()[c] = rstd;
  }
}

// With u = (x - mean) rstd over the n numbers of a channel:
//   dx = gamma rstd (dy - mean of dy - u mean of (dy u)), dgamma = sum of dy u, dbeta = sum of dy
//
// dy (B,C,..), x, gamma (C), mean (C), rstd (C) -> dx, overwritten; dgamma, dbeta, the mean, and
// the sum of squared distances by n - 1, each overwritten or added to.
void Run_kBatchNormGrad(const Node&, In in, Out out, Accumulate accumulate, void*) {
  const Channels of(*in[1].type);
  const float *const dy = in[0].f32(), *const x = in[1].f32();
  float* const dx = out[0].f32();
  const auto count = static_cast<double>(of.count());
  const auto give = [&](size_t o, int64_t c, double value) {
    float& to = out[o].f32()[c];
    to = static_cast<float>(value + (accumulate[o] ? static_cast<double>(to) : 0));
  };
  for (int64_t c = 0; c < of.channels; ++c) {
    const double mean = in[3].f32()[c], rstd = in[4].f32()[c];
    double sum = 0, sum_u = 0;
    of.WalkRuns(c, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const double of_y = dy[i];
        sum += of_y;
        sum_u += of_y * (static_cast<double>(x[i]) - mean) * rstd;
      }
    });
    const double scale = in[2].f32()[c] * rstd;
    of.WalkRuns(c, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const double u = (static_cast<double>(x[i]) - mean) * rstd;
        dx[i] = static_cast<float>(scale *
                                   (static_cast<double>(dy[i]) - sum / count - u * sum_u / count));
      }
    });
    const Statistics statistics(of, c, x);
    give(1, c, sum_u);
    give(2, c, sum);
    give(3, c, statistics.mean);
    give(4, c, statistics.squares / (count - 1));
  }
}

}  // namespace stringline::cpu
