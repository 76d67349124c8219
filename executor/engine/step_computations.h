// The commands of computations. A computation runs part by part on the two lanes of its rank, a
// group such as `F & B` in the order of group_order.h; its outputs leave when its whole group has
// ended. A computation that meets the buckets of collectives runs piece by piece, or waits for them
// part by part.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/step_buckets.h"
#include "executor/engine/step_commands.h"
#include "executor/engine/step_values.h"
#include "schedlang/plan/group_order.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepComputations {
 public:
  StepComputations(const Plan& plan, StageWork* work, Recorder* recorder,
                   const StepStreams& streams, StepValues* values, StepBuckets* buckets,
                   StepCommands* commands)
      : plan_(plan),
        work_(work),
        recorder_(recorder),
        streams_(streams),
        values_(values),
        buckets_(buckets),
        commands_(commands) {}

  // The group plan.actions[begin .. end).
  void Add(int rank, uint32_t begin, uint32_t end);
  // plan.actions[i] of a plan with a window: it begins when it has its turn.
  void AddReady(int rank, uint32_t i);
  // Work and calls of plan.actions[i]; `times` may be null.
  void AddPiece(int32_t stream, uint32_t i, const Piece& piece, CommandTimes* times);

 private:
  void AddParts(int rank, uint32_t begin, uint32_t end);
  void AddPieces(int32_t stream, uint32_t i);
  void Give(int32_t stream, uint32_t i, absl::Span<const int> given, const CommandTimes* times);
  void AddLanes(int32_t compute, int32_t network, const GroupOrder& order, uint32_t begin);
  void AddPart(int32_t stream, uint32_t i, LayerPart part);
  const CommandTimes* WaitForBuckets(int32_t stream, uint32_t i, LayerPart part);
  const GroupOrder& OrderOf(absl::Span<const Action> group);
  const Action& Of(uint32_t i) const { return plan_.actions[i]; }

  const Plan& plan_;
  StageWork* const work_;
  Recorder* const recorder_;
  const StepStreams& streams_;
  StepValues* const values_;
  StepBuckets* const buckets_;
  StepCommands* const commands_;
  // Of the group being added, by lane: the number of enqueued steps; by step the event of its end,
  // -1: no command waits for it.
  size_t done_[2] = {0, 0};
  std::vector<int32_t> awaited_[2];
  std::map<std::vector<GroupMember>, GroupOrder> orders_;  // the same ones recur
};

}  // namespace stringline
