// The programs of all stages, prepared to run: of each stage those of its kinds of computation,
// and, of a plan with slices, those of every slice.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/kernels.h"
#include "executor/training/ready_graph.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

class ReadyPrograms {
 public:
  static constexpr int kKinds = static_cast<int>(ActionKind::kUpdate);  // those before it

  // Keeps references to all arguments. `gathers` as StageLayout's.
  ReadyPrograms(const Plan& plan, absl::Span<const StageProgram> programs, bool gathers,
                Kernels* kernels);
  // The first error of preparing a kernel; after one the programs cannot run.
  absl::Status status() const;

  // The program of this kind of the action's stage and slice.
  const ReadyGraph& Of(const Action& action, ActionKind kind) const {
    return programs_[Index(action.stage, plan_.SliceOf(action), kind)];
  }
  // That of the first slice.
  const ReadyGraph& Of(StageId stage, ActionKind kind) const {
    return programs_[Index(stage, 0, kind)];
  }
  // The bytes of a value by its entry (StageGraph::entries), and of a program's temporaries: the
  // most of any slice.
  int64_t bytes(StageId entry, StageValue value) const { return bytes_[entry.value][value]; }
  int64_t arena_bytes(StageId stage, ActionKind kind) const;
  // An upper bound on the kernels that any of the stage's programs launches, and its copies.
  int64_t most_launches(StageId stage) const;

 private:
  size_t Index(StageId stage, int slice, ActionKind kind) const {
    const int64_t program = (int64_t{stage.value} * plan_.slices + slice) * kKinds;
    return static_cast<size_t>(program + static_cast<int>(kind));
  }
  absl::Span<const ReadyGraph> OfStage(StageId stage) const {
    return absl::MakeConstSpan(programs_).subspan(Index(stage, 0, ActionKind::kForward),
                                                  static_cast<size_t>(plan_.slices) * kKinds);
  }

  // Takes the bytes of all edges of the stage.
  void TakeEdges(StageId stage, const StageLayout& layout);

  const Plan& plan_;
  std::vector<ReadyGraph> programs_;  // by stage, slice and kind
  std::vector<StageBytes> bytes_;     // by entry
};

}  // namespace stringline
