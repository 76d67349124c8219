// Medians of repeated measurements, and a test for a difference of two lists beyond their spread.
#pragma once

#include <vector>

namespace stringline {

// The value below which this share of a non-empty list lies; between two values by linear
// interpolation (type 7 of Hyndman and Fan, 1996).
double Quantile(std::vector<double> values, double share);
inline double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

// The factor between the values of two lists: the median of all ratios of two values (Hodges and
// Lehmann, 1963, on logarithms), with the interval from a rank test (Wilcoxon, Mann and Whitney).
// Whatever the distribution of the values, the interval holds the true factor in at least 95 % of
// pairs of lists that differ by a factor alone.
struct RatioInterval {
  double ratio = 1;
  double least = 0, most = 0;  // meaningless unless `is_known`
  bool is_known = false;       // false: too few values for an interval
};
// Both lists hold positive numbers and are not empty.
RatioInterval CompareLists(const std::vector<double>& before, const std::vector<double>& after);

// The fewest values that two lists of equal length need for an interval.
inline constexpr int kFewestRepetitions = 4;

}  // namespace stringline
