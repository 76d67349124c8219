// Medians of what was measured several times, and whether two such lists differ by more than their
// own spread.
#pragma once

#include <vector>

namespace stringline {

// Of a list that is not empty, the value below which this share of it lies; between two values on
// the line through them (type 7 of Hyndman and Fan, 1996).
double Quantile(std::vector<double> values, double share);
inline double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

// How many times as large the values of one list are as those of another: the median of all ratios
// of two (Hodges and Lehmann, 1963, on logarithms), between two of them that a rank test (Wilcoxon,
// Mann and Whitney) leaves over. Whatever the distribution of the values, in at least 95 % of
// pairs of lists which differ by a factor alone that factor lies between them.
struct RatioInterval {
  double ratio = 1;
  double least = 0, most = 0;  // meaningless unless `is_known`
  bool is_known = false;       // false: there are too few values for any such interval
};
// Of lists of positive numbers, neither empty.
RatioInterval CompareLists(const std::vector<double>& before, const std::vector<double>& after);

// The fewest values that two lists of equal length need for an interval.
inline constexpr int kFewestRepetitions = 4;

}  // namespace stringline
