// The streams of a step, and for each value the action from which it comes and the event at that
// action's end, as the walk of the plan finds them. A consumer waits through here, so it waits only
// for actions that were enqueued before it.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/engine/stage_work.h"
#include "executor/engine/step_commands.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// By rank, and by channel for messages; -1: no such stream, or its rank is not local.
struct StepStreams {
  // `collects`, `copies`: the plan has collectives, and copies.
  StepStreams(const Plan& plan, const StageWork& work, const std::vector<bool>& local,
              bool collects, bool copies, StepCommands* commands);

  std::vector<int32_t> compute, network, collectives, offload, fetch;
  std::vector<int32_t> own, own_meetings;  // of a plan with rows
  std::vector<int32_t> send, recv;
  // Three streams of each stage in a plan with a window: its F, its B or I, and its W; -1: not
  // local. Each is in the order of the list, and waits for its turn on the rank.
  std::vector<int32_t> ready;
  bool cut = false;  // some stage has layers of parts

  // The stream of a computation.
  int32_t Of(const Plan& plan, const Action& action) const;
};

class StepValues {
 public:
  // `wiring` is empty for a plan without collectives and copies.
  StepValues(const Plan& plan, const Wiring& wiring, StepCommands* commands);

  // True if some command may wait for the end of this computation: then it needs an event.
  bool IsAwaited(const Action& action) const;
  // The event of an action's end.
  void Ends(uint32_t i, int32_t event) { event_of_[i] = event; }
  // Notes the outputs of a computation, or the value that a receive brings.
  void Gives(uint32_t i);
  void Brings(uint32_t i, bool gradient);

  void WaitForEnd(int32_t stream, uint32_t i) { commands_->Wait(stream, event_of_[i]); }
  // For the inputs of a computation, for its parameters, and for the value of a send.
  void WaitForNeeds(int32_t stream, uint32_t i);
  void WaitForParameters(int32_t stream, uint32_t i);
  void WaitForMaker(int32_t stream, const Action& send);
  // For the copies that a computation or a copy waits for.
  void WaitForCopies(int32_t stream, uint32_t i);
  // For the values of own actions, and those that an own action needs.
  void WaitForOwn(int32_t stream, uint32_t i);

 private:
  size_t Index(const Action& action) const {
    return static_cast<size_t>(action.stage.value) * plan_.microbatches + action.microbatch.value;
  }

  const Plan& plan_;
  const Wiring& wiring_;
  StepCommands* const commands_;
  std::vector<int32_t> event_of_;  // by action: its end; -1: no command waits for it
  std::vector<uint32_t> freed_;    // by stream: the last D that it waited for
  size_t Index(const Edge& edge, MicrobatchId microbatch) const {
    return static_cast<size_t>(edge.id) * plan_.microbatches + microbatch.value;
  }
  // By edge and microbatch, the receive of what comes over it, and of its gradient; -1: no message.
  std::vector<int32_t> input_from_;
  std::vector<int32_t> out_grad_from_;
  // By stage and microbatch, the action that gives the value; -1: none.
  std::vector<int32_t> output_from_;
  std::vector<int32_t> in_grad_from_;
};

}  // namespace stringline
