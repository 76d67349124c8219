// D and U placed within the memory of ranks: a microbatch goes to the host only when its rank would
// otherwise lack room.
//
// The list of a rank is walked group by group. If a group lacks room, a microbatch leaves, its D
// right before the group: the one that is needed last among those whose F lies `behind` groups back
// or more (Belady's rule), so that the copy, which begins with the end of the F, runs beside those
// groups. A U stands `ahead` groups before the one that needs it, or as far ahead as there is room.
// So few microbatches leave, each D is as late and each U as early as memory allows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The memory of a stage's actions: the change while an action runs, and from its end on.
struct ActionRoom {
  std::array<int64_t, kComputeKinds> during = {};
  std::array<int64_t, kComputeKinds> after = {};
  int64_t moved = 0;  // by a D, of a microbatch; 0: none may leave
};

struct CopyRoom {
  std::vector<ActionRoom> stages;
  std::vector<int64_t> capacity;  // by rank, for what its actions hold
  std::vector<int64_t> host;      // by rank, for copies on its host
};

// In groups, by rank.
struct CopyPace {
  std::vector<int64_t> ahead;   // of a U before its R, B or I
  std::vector<int64_t> behind;  // of a D after its F, where there is a choice
  // Others may leave for a U that stands ahead: it is as far ahead as said, and copies are more.
  bool swaps = false;
};

// The plan with the copies that its ranks need, or none. Nothing if a group lacks room at this
// pace; then `lacking` (may be null) is its rank. The plan has no copies; a copy has the place and
// the iteration of its F. Cost: groups times the microbatches that a rank holds.
std::optional<Plan> PlaceCopiesWithin(const Plan& plan, const CopyRoom& room, const CopyPace& pace,
                                      int* lacking = nullptr);

}  // namespace stringline
