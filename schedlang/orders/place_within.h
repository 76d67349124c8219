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
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
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

// True if the plan, with copies or without, keeps the limits of its ranks by the order of the list.
bool IsWithin(const Plan& plan, const CopyRoom& room);

// The bytes that a stage's actions hold, at these costs. `remakes`: the plan lists its R.
ActionRoom RoomOf(const StageMemory& memory, bool remakes, bool offloads);

// The values of paces, less is better: from one group each, further ahead and further behind as
// long as that is better, on all ranks together, and then, if asked, on each.
using ValueOfPace = std::function<std::pair<int64_t, int64_t>(const CopyPace& pace)>;
void ClimbPace(int ranks, bool swaps, bool each_rank, const ValueOfPace& value);

}  // namespace stringline
