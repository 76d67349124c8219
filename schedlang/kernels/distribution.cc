// The numbers are sorted; a quartile lies between two of them.
#include "schedlang/kernels/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stringline {

Distribution DistributionOf(std::vector<double> numbers) {
  Distribution found;
  if (numbers.empty()) return found;
  std::sort(numbers.begin(), numbers.end());
  const auto count = static_cast<double>(numbers.size());
  found.count = static_cast<int64_t>(numbers.size());
  found.mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - found.mean) * (number - found.mean);
  if (numbers.size() > 1) found.deviation = std::sqrt(squares / (count - 1));
  const auto quantile = [&](double share) {
    const double place = share * (count - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, numbers.size() - 1);
    return numbers[below] +
           (place - static_cast<double>(below)) * (numbers[above] - numbers[below]);
  };
  found.least = numbers.front();
  found.lower = quantile(0.25);
  found.median = quantile(0.5);
  found.upper = quantile(0.75);
  found.most = numbers.back();
  return found;
}

}  // namespace stringline
