// Points over two sizes, and the front of those that no other is better than in both: less of the
// one and more of the other.
#pragma once

#include <string>
#include <vector>

namespace stringline {

struct ParetoPoint {
  double cost = 0;   // less is better, on the x axis
  double value = 0;  // more is better, on the y axis
  std::string name;  // of a point that is listed; "" for others
};

// Indices of the points of the front, by rising cost. Of equal points the first.
std::vector<size_t> ParetoFront(const std::vector<ParetoPoint>& points);

struct ParetoAxes {
  std::string cost, value;  // their names with units
  double limit = 0;         // of cost, as a line; 0: none
  std::string limit_name;
};

// All points as dots, the front as a line through its points, and the named points as numbered
// marks with a legend.
std::string ParetoAsSvg(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);

}  // namespace stringline
