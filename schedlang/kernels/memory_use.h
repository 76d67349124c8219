// Memory over time: of the samples in a trace (profile_memory=True), and of the timeline by
// category that torch's profile.export_memory_timeline writes as .raw.json.gz (MemoryAnalysis).
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct TracedMemory {
  int device_type = 0;  // as torch numbers: 0 the host, 1 CUDA
  int device = 0;
  std::vector<MemorySample> samples;  // by time
  int64_t most_allocated_bytes = 0, most_reserved_bytes = 0;

  std::string device_name() const;  // "host", "GPU 0"
};

// Devices in order.
std::vector<TracedMemory> TracedMemoryOf(const KernelTrace& trace);

constexpr std::array<const char*, 8> kMemoryCategories = {
    "parameter",  "optimizer state", "input",    "temporary",
    "activation", "gradient",        "autograd", "unknown"};

struct CategorySample {
  int64_t at_ns = 0;
  std::array<int64_t, kMemoryCategories.size()> bytes{};
};

// The bytes of each category from each time on. What was there before the recording stands at its
// first time. Errors, InvalidArgument beginning with `file`: no list of [time, action, bytes,
// category].
absl::StatusOr<std::vector<CategorySample>> ReadMemoryTimeline(std::istream& json,
                                                               const std::string& file);

}  // namespace stringline
