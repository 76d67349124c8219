// Sums by name, in a table that both sets share.
#include "schedlang/kernels/name_differences.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace stringline {

std::vector<NameDifference> NameDifferencesOf(const std::vector<KernelTrace>& first,
                                              const std::vector<KernelTrace>& second) {
  std::map<std::pair<std::string, bool>, NameDifference> by_name;
  for (const int side : {0, 1}) {
    for (const KernelTrace& trace : side == 0 ? first : second) {
      std::vector<NameDifference> sums(2 * trace.names.size());
      const auto add = [&](uint32_t name, bool on_device, const TimeSpan& span) {
        NameDifference& sum = sums[2 * name + (on_device ? 1 : 0)];
        ++sum.counts[side];
        sum.times_ns[side] += span.end_ns - span.start_ns;
      };
      for (const HostCall& call : trace.calls) add(call.name, false, call);
      for (const DeviceRun& run : trace.runs) add(run.name, true, run);
      for (size_t i = 0; i < sums.size(); ++i) {
        if (sums[i].counts[side] == 0) continue;
        NameDifference& of = by_name[{trace.names[i / 2], i % 2 == 1}];
        of.counts[side] += sums[i].counts[side];
        of.times_ns[side] += sums[i].times_ns[side];
      }
    }
  }
  std::vector<NameDifference> differences;
  for (auto& [key, difference] : by_name) {
    difference.name = key.first;
    difference.on_device = key.second;
    differences.push_back(std::move(difference));
  }
  std::stable_sort(
      differences.begin(), differences.end(), [](const NameDifference& a, const NameDifference& b) {
        return std::abs(a.times_ns[1] - a.times_ns[0]) > std::abs(b.times_ns[1] - b.times_ns[0]);
      });
  return differences;
}

}  // namespace stringline
