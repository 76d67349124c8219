// The commands of messages. The messages of one communicator take turns: a call waits for the ends
// of the call before it in its rank's queue, on whatever streams those were. A send waits for its
// value, or for all computations listed before it (MessageOrder).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/message_groups.h"
#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/step_commands.h"
#include "executor/engine/step_values.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepMessages {
 public:
  StepMessages(const Plan& plan, StageWork* work, const MessageGroups& messages, Recorder* recorder,
               const InterpreterSettings& settings, const StepStreams& streams, StepValues* values,
               StepCommands* commands);

  // The messages plan.actions[begin .. end), joined: a single call on each of their communicators.
  // FailedPrecondition for a message to no other rank, Unimplemented if the groups cannot begin
  // several parts of a call together.
  absl::Status Add(int rank, uint32_t begin, uint32_t end);
  // The stream waits for the last computation listed before the action.
  void WaitForListedWork(int rank, uint32_t i, int32_t stream);

 private:
  // One end of a message.
  struct Part {
    int queue;
    int32_t stream;
    uint32_t action;
    int channel;
  };
  // A stream on which a call had parts, and the event of its last part, once a command waits for
  // it.
  struct CallEnd {
    int32_t stream;
    uint32_t action;
    int32_t event = -1;
  };

  absl::Status AddCall(int rank, absl::Span<const Part> call);
  absl::Status CheckBeginsTogether(int rank, absl::Span<const Part> call) const;
  void AddMessage(int rank, const Part& part);
  uint32_t TakerOf(int rank, uint32_t recv) const;
  int32_t AddFlight(int rank, int32_t channel, uint32_t i);
  int32_t EndOf(CallEnd* end);

  const Plan& plan_;
  StageWork* const work_;
  const MessageGroups& messages_;
  Recorder* const recorder_;
  const InterpreterSettings& settings_;
  const StepStreams& streams_;
  StepValues* const values_;
  StepCommands* const commands_;
  const CommQueues queues_;
  std::vector<std::vector<CallEnd>> last_call_;  // by queue: the streams of its last call
  std::vector<Part> parts_;                      // of the messages being added
  std::vector<CallEnd> call_;                    // of the call being added
};

}  // namespace stringline
