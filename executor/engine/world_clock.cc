#include "executor/engine/world_clock.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int kRounds = 20;

// The moments when a process came to a meeting of all, and left the meeting before, as words.
struct Readings {
  std::array<uint64_t, 2> words = {};
  uint64_t& came() { return words[0]; }
  uint64_t& left() { return words[1]; }
  int64_t came_ns() const { return static_cast<int64_t>(words[0]); }
  int64_t left_ns() const { return static_cast<int64_t>(words[1]); }
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
  const bool is_first = world->process() == 0;
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> kernels, world->GiveToFirst(kernel));
  // Process 0's numbers, since the others add nothing to them.
  uint64_t same = is_first && !kernel.empty() &&
                  std::all_of(kernels.begin(), kernels.end(),
                              [&](const std::string& other) { return other == kernel; });
  SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(&same, 1)));
  if (same != 0) return ClockOffset{};
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  Readings mine;
  for (int round = 0; round <= kRounds; ++round) {
    const int64_t came_before_ns = mine.came_ns();
    mine.came() = static_cast<uint64_t>(now_ns(self));
    Readings first = is_first ? mine : Readings();
    SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(first.words)));
    // In the previous round, this process came before process 0 left.
    if (round > 0) least = std::max(least, came_before_ns - first.left_ns());
    mine.left() = static_cast<uint64_t>(now_ns(self));
    most = std::min(most, mine.left_ns() - first.came_ns());
  }
  if (is_first) return ClockOffset{};
  return ClockOffset{least + (most - least) / 2, (most - least + 1) / 2};
}

}  // namespace stringline
