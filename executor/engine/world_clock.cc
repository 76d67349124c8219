#include "executor/engine/world_clock.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "executor/engine/packed_numbers.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int kRounds = 20;

// The moments when a process came to an exchange, and left the exchange before.
struct Readings {
  int64_t came_ns = 0;
  int64_t left_ns = 0;
};

}  // namespace

std::string KernelName() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

absl::StatusOr<ClockOffset> FindClockOffset(World* world, const std::string& kernel,
                                            int64_t (*now_ns)(const void* self), const void* self) {
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> kernels, world->Exchange(kernel));
  const bool same = std::all_of(kernels.begin(), kernels.end(),
                                [&](const std::string& other) { return other == kernels[0]; });
  if (same && !kernels[0].empty()) return ClockOffset{};
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  Readings mine;
  for (int round = 0; round <= kRounds; ++round) {
    const int64_t came_before_ns = mine.came_ns;
    mine.came_ns = now_ns(self);
    PackedNumbers packed;
    packed.Add(mine);
    SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world->Exchange(packed.bytes()));
    const auto first = NumberReader(all[0]).Take<Readings>();
    // In the previous round, this process came before process 0 left.
    if (round > 0) least = std::max(least, came_before_ns - first.left_ns);
    mine.left_ns = now_ns(self);
    most = std::min(most, mine.left_ns - first.came_ns);
  }
  if (world->process() == 0) return ClockOffset{};
  return ClockOffset{least + (most - least) / 2, (most - least + 1) / 2};
}

}  // namespace stringline
