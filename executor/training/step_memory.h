// The memory of a step's values: on each rank a block for the values between actions, a room for
// gathered parameters, arenas for temporaries, and a block in the host's memory for copies. A value
// is found by its stage or its edge, and an action's regions are the addresses of its values.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/stage_work.h"
#include "executor/training/host_copies.h"
#include "executor/training/rank_allocator.h"
#include "executor/training/ready_graph.h"
#include "executor/training/ready_programs.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepMemory {
 public:
  // Keeps references to both.
  StepMemory(const Plan& lowered, const ReadyPrograms& ready) : plan_(lowered), ready_(ready) {}

  // Places the values of these ranks, by the sizes of stages and edges; takes no memory.
  absl::Status Place(absl::Span<const StageSizes> sizes, absl::Span<const RankId> ranks);
  const MemoryPlan& places() const { return memory_; }
  // Takes the memory of the same ranks; addresses exist from then on.
  absl::Status Allocate(absl::Span<const RankId> ranks, RankAllocator* allocator);

  // The bytes of a value with all its chunks, by its entry (StageGraph::entries).
  int64_t BytesOf(StageId entry, StageValue value) const {
    return plan_.chunks * StrideOf(entry, value);
  }
  // The buffer of a message.
  Bytes Payload(const Action& message) const;
  // A value that stays in its stage; `back`: where a U brings it (MemoryPlan::OffsetOf).
  char* AddressOf(StageId stage, MicrobatchId microbatch, StageValue value,
                  bool back = false) const;
  // The room for the parameters of the stage's UNSHARD of this number.
  char* RoomOf(StageId stage, int unshard) const;
  // Among `regions`, those of the action's program: its arena, and a chunk of its values, which
  // `copies` may have brought back.
  void Bind(const Action& action, ActionKind program, int chunk, const HostCopies& copies,
            Regions* regions);

 private:
  // The memory of a rank that actions reuse.
  struct RankBlocks {
    char* values = nullptr;    // between actions
    char* gathered = nullptr;  // of gathered parameters
    char* host = nullptr;      // of copied values, in the host's memory
    std::vector<char*> arenas;
  };

  // The bytes of a value from one chunk to the next.
  int64_t StrideOf(StageId entry, StageValue value) const;
  // The value of an edge, at the end that has it.
  char* AddressOf(const Edge& edge, MicrobatchId microbatch, StageValue value) const;
  void BindSlices(const Action& action, Regions* regions, std::vector<char*>* further) const;
  void BindEdges(const Action& action, int chunk, Regions* regions,
                 std::vector<char*>* further) const;

  const Plan& plan_;
  const ReadyPrograms& ready_;
  MemoryPlan memory_;
  std::vector<RankBlocks> blocks_;          // by rank
  std::deque<std::vector<char*>> further_;  // Regions::further
};

}  // namespace stringline
