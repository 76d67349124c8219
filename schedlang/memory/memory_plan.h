// The place of every value of a step, decided before the first step; a step allocates nothing. The
// executor takes and `check` counts the bytes of this plan, so the two numbers agree.
//
// Values that live from one action to another lie in one block of their rank. Bytes are reused only
// if the plan itself already orders the new use after the old use, so placing values never adds a
// wait, and never a deadlock. The order is happens-before:
//   - groups of a rank happen in the order of the plan, with copies between them (plan/links.h);
//   - a message's value was computed before its receiver uses it.
// The plan is walked once with a vector clock per rank: clock[b] = n means that the first n groups
// of rank b are known to have ended. A value is dead once its last user's group has ended. For a
// send's buffer that group is the consumer on the other rank: its end proves that the bytes have
// arrived. In the host's block a value lives from its F to the B or I for which U brings it back,
// since a D begins as soon as it can. All births and deaths are known then, and the values are
// packed anew (packing.h).
//
// In ready order (plan/ready.h) every stage keeps its order of microbatches, and holds so many: its
// k-th value of a kind has the bytes of the one that many before it, whatever order happens. Of a
// stage's activations there are RoomOf; so there are of the messages between two stages, whose
// microbatches the first of them holds until the gradient comes back.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct RankMemory {
  int64_t resident = 0;
  int64_t gathered = 0;   // room for the gathered parameters, see below
  int64_t block = 0;      // the block of values
  int64_t alive = 0;      // the most bytes of it alive at once; 0: not known (kMostPacked)
  int64_t host = 0;       // in the memory of the host: the block of what D has copied there
  StageBytes by_value;    // by value: the growth of the block for it
  bool in_parts = false;  // has stages in parts
  // Temporaries. Programs that never run at once share an arena: all programs of a rank; on a rank
  // with stages in parts, only those of F and R, those of B and I, and those of W. If a group has
  // several actions with such programs, or their microbatches are in chunks, then each of them has
  // an arena of its own.
  std::vector<int64_t> arenas;

  // `program` of an action with so many twins before it: for each action of its group that runs
  // such a program, too (TwinsBefore), its chunks, and the chunks before.
  size_t ArenaOf(ActionKind program, int twins) const;
  int64_t all() const;
  // The bytes of the block that no value needs while the most are alive; 0 where that is not known.
  int64_t gaps() const { return alive == 0 ? 0 : block - alive; }
};

// The number of actions before plan.actions[action] in its group with a program that runs beside
// `program` of this action and would share its arena. 0 in a group that does not overlap.
int TwinsBefore(const Plan& plan, uint32_t action, ActionKind program);

struct MemoryPlan {
  int microbatches = 0;
  // The places of a value, one after the other: 2 in a plan with copies, in which a U brings a
  // value back to another place than D took it from.
  int places = 1;
  std::vector<int64_t> offsets;  // into the rank's block; -1: the value does not exist
  // By stage: the offset of the parameters of its k-th UNSHARD, in its rank's room for gathered
  // parameters. They reuse bytes dropped by a RESHARD earlier in the list, for which an UNSHARD
  // waits anyway.
  std::vector<std::vector<int64_t>> gathers;
  std::vector<RankMemory> ranks;

  // An output that stays on its rank has the place of the next stage's input; likewise an input
  // gradient. `stage`: the entry of the value (StageGraph::entries).
  // `back`: the place to which a U brings it. Hosted values lie in the rank's block of the host.
  int64_t OffsetOf(StageId stage, MicrobatchId microbatch, StageValue value,
                   bool back = false) const {
    const size_t of = static_cast<size_t>(stage.value) * microbatches + microbatch.value;
    return offsets[(of * kBuiltInValues + static_cast<size_t>(value)) * places + (back ? 1 : 0)];
  }
};

// Bytes are shared only by values of equal size; or by values of any size, in the order of the
// walk: then each rank takes the rule with the smaller block; or the values of each rank with up to
// kMostPacked of them are packed once more, in other orders (packing.h).
enum class Sharing : uint8_t { kOneSize, kAnySize, kPacked };
inline constexpr size_t kMostPacked = 2048;

// `stages` has an entry per stage of the plan, and per edge where stages are no chain
// (StageGraph::entries), with the bytes of what moves over it. FailedPrecondition when the plan
// does not end: its computations form a cycle of dependencies, or need a value without a producer.
// `most`, by rank, if the question is only whether ranks hold no more than so many bytes (-1: any):
// values are packed until they fit, and not where they cannot.
absl::StatusOr<MemoryPlan> PlanMemory(const Plan& lowered, absl::Span<const StageSizes> stages,
                                      Sharing sharing = Sharing::kPacked,
                                      absl::Span<const int64_t> most = {});

// The same for the question by how much ranks hold more than `most`: those that do not are packed
// no tighter than they have to be, the others as without `most`.
absl::StatusOr<MemoryPlan> PlanMemoryBeyond(const Plan& lowered,
                                            absl::Span<const StageSizes> stages,
                                            absl::Span<const int64_t> most);

// The values of these ranks, placed as PlanMemory places them; those of other ranks need not have
// places, and the blocks of these ranks no bytes. A process of a long pipeline has few of the
// ranks, and the values of all of them take most of the time and the memory of planning.
absl::StatusOr<MemoryPlan> PlanMemoryOf(const Plan& lowered, absl::Span<const StageSizes> stages,
                                        absl::Span<const RankId> ranks);

}  // namespace stringline
