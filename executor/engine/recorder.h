// The times of every action of a step, as observed: the same Timeline that the simulator writes.
//
// If ranks share processors, an observed start also includes the wait for a processor; when_ready.h
// computes the start by dependencies alone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/packed_numbers.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// The times of a command, each 0 until known. Other threads may read them while a step runs.
struct CommandTimes : WorkTimes {
  int64_t came_ns = 0;  // for a call: when its stream came to it, on devices that observe it
};

// The times known of an action of the step under way.
struct ActionTimes {
  int64_t start_ns = 0;  // 0: not begun; of a call: when its stream came to it
  int64_t end_ns = 0;    // 0: not ended
};

class Recorder {
 public:
  // Room for one step of the plan; each step overwrites the last.
  explicit Recorder(const Plan& lowered);

  // Called right before the step is enqueued: times count from `now_ns` of the device's clock.
  // Clears the last step's times.
  void StartStep(int64_t now_ns);
  int64_t step_start_ns() const { return step_start_ns_; }

  // The destination for the times of plan.actions[index]: a collective, or a computation of a plan
  // whose stages are not cut into parts.
  CommandTimes* times(size_t index) { return &times_[index]; }
  // The destination for the times of a part; called once for each. Its stream waits for the end of
  // `awaited`, which may be null. The action's own times follow from its parts.
  CommandTimes* AddPart(size_t index, LayerPart part, const CommandTimes* awaited);
  // The destination for the times of the next piece of a computation that meets collectives, or of
  // the next call of a collective that a computation meets. Its stream waits for the end of
  // `awaited`, which may be null. The action's own times follow from its pieces.
  CommandTimes* AddPiece(size_t index, const CommandTimes* awaited);
  // The end of a message is the arrival of its bytes; a message has no recorded start.

  // Reads the times of plan.actions[begin .. end) into known[0 .. end - begin). From any thread, at
  // any time; of other processes' ranks the times last taken over in the step.
  void Look(uint32_t begin, uint32_t end, absl::Span<ActionTimes> known) const;

  // Packs the times of these ranks in the last step, as recorded here, for another process.
  // `ahead_ns` is how far the recorder's clock is ahead of the packed times.
  void Pack(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
            PackedNumbers* numbers) const;
  // Takes over the packed times of another process's ranks; the step starts as it did here.
  void Take(const Plan& lowered, absl::Span<const RankId> ranks, int64_t ahead_ns,
            NumberReader* numbers);

  // The last step. A message starts when it leaves its channel, which is its arrival unless it is
  // in flight afterwards. A collective, or a part of a computation, that consists of calls alone
  // starts when it ends. An action without a command, or performed elsewhere, was not recorded: it
  // starts and ends at -1.
  Timeline Observed(const Plan& lowered) const;

 private:
  int64_t step_start_ns_ = 0;
  struct RecordedPart {
    uint32_t action;
    LayerPart part;
    CommandTimes times;
    const CommandTimes* awaited = nullptr;
    int64_t awaited_ns = 0;  // its end, if another process has told it

    int64_t AwaitedNs() const { return awaited == nullptr ? awaited_ns : awaited->end_ns; }
  };
  struct RecordedPiece {
    CommandTimes times;
    const CommandTimes* awaited;
  };
  // The action's pieces in their order, as one.
  struct InPieces {
    uint32_t action = 0;
    int64_t start_ns = 0, end_ns = 0;
    int64_t waited_ns = 0;  // between pieces
    int64_t first_ns = 0;   // the end of the first
  };
  static InPieces AsOne(uint32_t action, const std::deque<RecordedPiece>& pieces);
  static void LookAtPart(uint32_t action, const CommandTimes& times, uint32_t begin,
                         absl::Span<ActionTimes> known);
  static CommandTimes Moved(const CommandTimes& times, int64_t by_ns);
  static RecordedPart Moved(const RecordedPart& part, int64_t by_ns);
  static InPieces Moved(InPieces one, int64_t by_ns);
  // Guards the members below against Look on another thread. Streams write single times without it.
  mutable std::mutex mutex_;
  std::vector<CommandTimes> times_;                       // by action
  std::deque<RecordedPart> parts_;                        // a deque: elements do not move
  std::map<uint32_t, std::deque<RecordedPiece>> pieces_;  // by action
  // For the same step, received from other processes.
  std::vector<RecordedPart> told_parts_;
  std::vector<InPieces> told_pieces_;
};

}  // namespace stringline
