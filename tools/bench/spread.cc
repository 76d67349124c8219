#include "tools/bench/spread.h"

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

constexpr double kMissed = 0.025;  // on each side

// For u = 0, 1, …: the probability that exactly u of all pairs of an a and a b have b < a, if all
// orders of the values are equally likely. Recursion on the largest value: a largest b is in no
// such pair, a largest a is in one with every b.
std::vector<double> LikelihoodOfPairs(size_t a, size_t b) {
  // ways[j][u]: orders of i a's and j b's, built up by i.
  std::vector<std::vector<double>> ways(b + 1, std::vector<double>(a * b + 1, 0));
  for (size_t j = 0; j <= b; ++j) ways[j][0] = 1;
  for (size_t i = 1; i <= a; ++i) {
    std::vector<std::vector<double>> next = ways;
    for (size_t j = 0; j <= b; ++j) {
      const double all = static_cast<double>(i + j);
      for (size_t u = 0; u <= a * b; ++u) {
        const double a_last = u >= j ? ways[j][u - j] * static_cast<double>(i) / all : 0;
        const double b_last = j > 0 ? next[j - 1][u] * static_cast<double>(j) / all : 0;
        next[j][u] = a_last + b_last;
      }
    }
    ways = std::move(next);
  }
  return ways[b];
}

}  // namespace

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - std::floor(place));
}

RatioInterval CompareLists(const std::vector<double>& before, const std::vector<double>& after) {
  std::vector<double> ratios;
  for (const double old : before) {
    for (const double now : after) ratios.push_back(now / old);
  }
  std::sort(ratios.begin(), ratios.end());
  RatioInterval interval;
  interval.ratio = Median(ratios);
  // With u ratios given up on each side, the interval misses where at most u - 1 pairs have the
  // opposite order of all others.
  double missed = 0;
  size_t given_up = 0;
  for (const double likelihood : LikelihoodOfPairs(before.size(), after.size())) {
    missed += likelihood;
    if (missed > kMissed || 2 * given_up + 1 >= ratios.size()) break;
    ++given_up;
  }
  interval.is_known = given_up > 0;
  if (!interval.is_known) return interval;
  interval.least = ratios[given_up - 1];
  interval.most = ratios[ratios.size() - given_up];
  return interval;
}

}  // namespace stringline
