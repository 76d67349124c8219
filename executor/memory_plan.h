// Where every value of a step lies, decided before the first step; nothing is allocated during one.
//
// The values that live from one action to another have slots on their rank. A slot is used again
// only where the plan itself already puts the new use after the old one, so that placing values
// never adds a wait, and never a deadlock. "After" is happens-before:
//   - groups of a rank happen in the order of the plan;
//   - what a message carries was computed before its receiver uses it.
// The plan is walked once with a vector clock per rank: clock[b] = n means that the first n groups
// of rank b are known to have ended. A value is free once the group that uses it last has ended:
// for a send's buffer that group is on the other rank, since the bytes were surely taken when
// somebody has used them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/plan.h"
#include "schedlang/values.h"

namespace stringline {

// No rank's block is counted as larger.
inline constexpr int64_t kMostRankBytes = int64_t{1} << 60;

struct RankMemory {
  int64_t bytes = 0;        // one block
  int64_t temporaries = 0;  // beside it: what programs need while they run
  StageBytes by_value;      // of the block: by the value a slot was made for
};

// Of a rank of the mesh: what its parameters, gradients, moments, slots, temporaries, tokens and
// losses take by the plan, before anything is taken, and what the device has given for it.
struct RankBytes {
  int64_t planned = 0;
  int64_t allocated = 0;
};

struct MemoryPlan {
  int microbatches = 0;
  std::vector<int64_t> offsets;  // into the rank's block; -1: no such value
  std::vector<RankMemory> ranks;

  // An output that stays on its rank is the next stage's input, an input gradient likewise.
  int64_t OffsetOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    return offsets[(static_cast<size_t>(stage.value) * microbatches + microbatch.value) *
                       kStageValues +
                   static_cast<size_t>(value)];
  }
};

// `stages` has one entry per stage of the plan; those of `halved` (by stage; none if empty) do
// their B as an I and a W, with a stash between. FailedPrecondition when the plan does not end: its
// computations wait for each other in a circle, or for something that nobody gives.
absl::StatusOr<MemoryPlan> PlanMemory(const Plan& lowered, absl::Span<const StageBytes> stages,
                                      const std::vector<bool>& halved = {});

}  // namespace stringline
