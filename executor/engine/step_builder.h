// Walks a lowered plan once, rank by rank, and writes the commands of a step: waits for an action's
// dependencies, its work, and events for its consumers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/message_groups.h"
#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/step_buckets.h"
#include "executor/engine/step_commands.h"
#include "executor/engine/step_computations.h"
#include "executor/engine/step_messages.h"
#include "executor/engine/step_values.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepBuilder {
 public:
  StepBuilder(const Plan& lowered, StageWork* work, const MessageGroups& messages,
              Recorder* recorder, const InterpreterSettings& settings, StepCommands* commands);

  // Errors as Interpreter::Make.
  absl::Status Build();
  // By rank, the stream of its computations; -1: not local.
  const std::vector<int32_t>& compute_streams() const { return streams_.compute; }

 private:
  absl::Status CheckReadyOrder() const;
  absl::Status BuildRank(int rank);
  void EndReady(int rank);
  absl::Status NeedsAreThere(int rank, absl::Span<const Action> group) const;
  absl::Status AddGroup(int rank, uint32_t begin, uint32_t end);
  absl::Status CannotPerform(int rank, const Action& action, const absl::Status& status) const;
  absl::Status AddCopy(int rank, uint32_t i);
  absl::Status AddOwn(int rank, uint32_t i);
  absl::Status AddUpdate(int rank, uint32_t i);
  absl::Status AddCollective(int rank, uint32_t i);
  void AddBuckets(int32_t stream, uint32_t i, absl::Span<const Piece> pieces);

  const Plan& plan_;
  StageWork* const work_;
  Recorder* const recorder_;
  StepCommands* const commands_;
  const MessageOrder order_;
  const std::vector<bool> local_;  // by rank
  const StepStreams streams_;
  const Wiring own_;      // without links in the settings
  const Wiring& wiring_;  // of a plan with collectives or copies; else empty
  StepValues values_;
  StepBuckets buckets_;
  StepComputations computations_;
  StepMessages messages_;
  LiveValues issued_;  // as the ranks' lists make and free them
};

}  // namespace stringline
