// Where every value of a step lies, decided before the first step; nothing is allocated during one.
// What the executor takes and what `check` counts is this plan, so they are one number.
//
// The values that live from one action to another lie in one block of their rank. Bytes are used
// again only where the plan itself already puts the new use after the old one, so that placing
// values never adds a wait, and never a deadlock. "After" is happens-before:
//   - groups of a rank happen in the order of the plan;
//   - what a message carries was computed before its receiver uses it.
// The plan is walked once with a vector clock per rank: clock[b] = n means that the first n groups
// of rank b are known to have ended. A value is dead once the group that uses it last has ended:
// for a send's buffer that group is on the other rank, since the bytes were surely taken when
// somebody has used them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan.h"

namespace stringline {

// Programs that never run at once share one arena for their temporaries: all of a rank, and of one
// that has stages in parts, only those of F, those of B and I, and those of W.
inline constexpr int kArenas = 3;

struct RankMemory {
  int64_t resident = 0;
  int64_t gathered = 0;                      // room for what is gathered at once, see below
  int64_t block = 0;                         // of values
  StageBytes by_value;                       // the same, by the value that the block grew for
  bool in_parts = false;                     // it has stages in parts
  std::array<int64_t, kArenas> arenas = {};  // temporaries
  int ArenaOf(ActionKind compute) const;
  int64_t all() const { return resident + gathered + block + arenas[0] + arenas[1] + arenas[2]; }
};

struct MemoryPlan {
  int microbatches = 0;
  std::vector<int64_t> offsets;  // into the rank's block; -1: no such value
  // By stage: where its k-th UNSHARD puts the parameters, in its rank's memory for them. They take
  // bytes of what a RESHARD listed before has dropped: an UNSHARD waits for those anyway.
  std::vector<std::vector<int64_t>> gathers;
  std::vector<RankMemory> ranks;

  // An output that stays on its rank is the next stage's input, an input gradient likewise.
  int64_t OffsetOf(StageId stage, MicrobatchId microbatch, StageValue value) const {
    return offsets[(static_cast<size_t>(stage.value) * microbatches + microbatch.value) *
                       kStageValues +
                   static_cast<size_t>(value)];
  }
};

// Whether bytes are shared by values of one size only, or by any: then whichever of the two makes
// the smaller block of a rank is taken.
enum class Sharing : uint8_t { kOneSize, kAnySize };

// `stages` has one entry per stage of the plan. FailedPrecondition when the plan does not end: its
// computations wait for each other in a circle, or for something that nobody gives.
absl::StatusOr<MemoryPlan> PlanMemory(const Plan& lowered, absl::Span<const StageSizes> stages,
                                      Sharing sharing = Sharing::kAnySize);

}  // namespace stringline
