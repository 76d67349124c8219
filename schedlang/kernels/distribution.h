// The distribution of numbers: mean, standard deviation and quartiles.
#pragma once

#include <cstdint>
#include <vector>

namespace stringline {

struct Distribution {
  int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the sample, with n - 1; 0 of a single number
  double least = 0, lower = 0, median = 0, upper = 0, most = 0;  // quartiles, interpolated linearly
};

// Every field is 0 without numbers.
Distribution DistributionOf(std::vector<double> numbers);

}  // namespace stringline
