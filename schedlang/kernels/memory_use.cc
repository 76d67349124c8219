// Samples of a trace are split by device. A timeline's changes are summed by category, in the order
// of the file.
#include "schedlang/kernels/memory_use.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {

std::string TracedMemory::device_name() const {
  if (device_type == 0) return "host";
  return absl::StrCat(device_type == 1 ? "GPU " : "device ", device);
}

std::vector<TracedMemory> TracedMemoryOf(const KernelTrace& trace) {
  std::map<std::pair<int, int>, TracedMemory> by_device;
  for (const MemorySample& sample : trace.samples) {
    TracedMemory& curve = by_device[{sample.device_type, sample.device}];
    curve.device_type = sample.device_type;
    curve.device = sample.device;
    curve.samples.push_back(sample);
    curve.most_allocated_bytes = std::max(curve.most_allocated_bytes, sample.allocated_bytes);
    curve.most_reserved_bytes = std::max(curve.most_reserved_bytes, sample.reserved_bytes);
  }
  std::vector<TracedMemory> curves;
  for (auto& [device, curve] : by_device) curves.push_back(std::move(curve));
  return curves;
}

absl::StatusOr<std::vector<CategorySample>> ReadMemoryTimeline(std::istream& json,
                                                               const std::string& file) {
  const auto list = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::vector<CategorySample> samples;
  int64_t first_ns = -1;
  const auto refused = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": is no memory timeline of torch's profiler: ", why));
  };
  if (!list.is_array()) return refused("it is not a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& change = list[i];
    const bool is_change = change.is_array() && change.size() == 4 &&
                           change[0].is_number_integer() && change[2].is_number_integer() &&
                           change[3].is_number_integer();
    const int64_t category = is_change ? change[3].get<int64_t>() : -1;
    if (category < 0 || category >= static_cast<int64_t>(kMemoryCategories.size())) {
      return refused(absl::StrCat("item ", i, " is not [time, action, bytes, category]"));
    }
    const auto at_ns = change[0].get<int64_t>();
    if (at_ns > 0) first_ns = first_ns < 0 ? at_ns : std::min(first_ns, at_ns);
    if (samples.empty() || at_ns != samples.back().at_ns) {
      samples.push_back(samples.empty() ? CategorySample{} : samples.back());
      samples.back().at_ns = at_ns;
    }
    samples.back().bytes[static_cast<size_t>(category)] += change[2].get<int64_t>();
  }
  for (CategorySample& sample : samples) {
    if (sample.at_ns < 0) sample.at_ns = first_ns;
  }
  return samples;
}

}  // namespace stringline
