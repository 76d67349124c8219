// When every action of a step ran, as it was observed: the same Timeline that the simulator writes.
//
// Where ranks share processors, an observed time says when a processor was there for the work, and
// not only when the work could have begun; when_ready.h makes the one of the other.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/packed_numbers.h"
#include "schedlang/parts/parts.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

// The times of a command, each 0 until it is known. Others may look at them while a step runs.
struct CommandTimes : WorkTimes {
  int64_t came_ns = 0;  // of a call: when its stream came to it, on devices that see it
};

// What is known of an action of the step under way.
struct ActionTimes {
  int64_t start_ns = 0;  // 0: it has not begun; of a call when its stream came to it
  int64_t end_ns = 0;    // 0: it has not ended
};

class Recorder {
 public:
  // Room for one step of the plan; each step overwrites the last.
  explicit Recorder(const Plan& lowered);

  // Right before the step is enqueued: times count from `now_ns` of the device's clock. What the
  // last step left is forgotten.
  void StartStep(int64_t now_ns);
  int64_t step_start_ns() const { return step_start_ns_; }

  // Where the times of plan.actions[index] are written: a collective, or a computation where no
  // stage of the plan is cut into parts.
  CommandTimes* times(size_t index) { return &times_[index]; }
  // Where those of a part of it are; once for each. The action's own follow from its parts'.
  CommandTimes* AddPart(size_t index, LayerPart part);
  // Of a message the end is the moment the bytes were there, and it has no start.

  // What is known now of plan.actions[begin .. end), of which known[0] is the first. From any
  // thread while a step runs, of ranks that are here; between steps of all.
  void Look(uint32_t begin, uint32_t end, absl::Span<ActionTimes> known) const;

  // What another process needs to have the whole of the last step: when it started, and the times
  // of these ranks, all that this recorder was given. `ahead_ns` is how far the recorder's clock is
  // ahead of the packed times.
  void Pack(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
            PackedNumbers* numbers) const;
  // Takes over what another process packed of its ranks; with `start` also when the step started.
  void Take(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns, bool start,
            NumberReader* numbers);

  // The last step. A message starts when it has left its channel, which is when it has arrived
  // unless it is in flight after that. A collective, or a part of a computation, that is nothing
  // but calls starts when it ends.
  Timeline Observed(const Plan& lowered) const;

 private:
  int64_t step_start_ns_ = 0;
  struct RecordedPart {
    uint32_t action;
    LayerPart part;
    CommandTimes times;
  };
  static void LookAtPart(const RecordedPart& part, uint32_t begin, absl::Span<ActionTimes> known);
  static CommandTimes Moved(const CommandTimes& times, int64_t by_ns);
  std::vector<CommandTimes> times_;       // by action
  std::deque<RecordedPart> parts_;        // where they are stays where it is
  std::vector<RecordedPart> told_parts_;  // of the same step, by other processes
};

}  // namespace stringline
