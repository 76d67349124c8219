// The last commands of every rank, over all steps: the history of a run before a failure. A command
// is an action of the plan, with the times at which its rank came to it and at which it ended.
//
// Any thread may read the log while a step runs, to explain a wait or to write records.
//
// The recorder holds the step under way. When the next step starts, its times move here, into rings
// of fixed size: a step allocates nothing. Commands are those of this process's ranks, and in
// process 0 also those of other ranks in steps whose times were gathered (Trainer::GatherTimes).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/local_ranks.h"
#include "executor/engine/rank_states.h"
#include "executor/engine/recorder.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

class FlightLog final : public RankStates {
 public:
  static constexpr int kCommands = 1000;  // per rank

  // Every argument outlives the log. `recorders` is indexed by coordinate of the mesh.
  FlightLog(const Plan& lowered, std::vector<Recorder*> recorders, const LocalRanks& local,
            const Device* device);

  // Stores the last step's times from the recorders, and starts the next step on all of them.
  void StartStep(int64_t now_ns);
  // The work of this process's ranks beside the plan's actions, from now on: "updates its
  // parameters". The text must outlive the log.
  void Say(const char* doing);

  std::vector<RankState> Now() const override;
  // The commands of a coordinate's ranks, oldest first; times count from the earliest start. A
  // command without an end is marked unfinished and ends now.
  Timeline Record(int coordinate) const;
  // The start of each step in Record's times, a line each: "step 12 starts at 48211".
  std::vector<std::string> DescribeSteps(int coordinate) const;
  // True if a command begun by a rank of this process has not ended.
  bool HasUnfinished() const;
  bool HoldsRanksOf(int coordinate) const { return !local_.Of(coordinate).empty(); }
  int64_t steps() const {  // steps begun
    const std::lock_guard<std::mutex> lock(mutex_);
    return step_;
  }
  int coordinates() const { return static_cast<int>(recorders_.size()); }

 private:
  struct Command {
    uint32_t action = 0;
    int32_t step = 0;
    ActionTimes times;
  };
  // The commands of a rank: `count` were written, the last kCommands are kept.
  struct Ring {
    std::vector<Command> commands;
    int64_t count = 0;
    const Command& at(int64_t i) const { return commands[i % kCommands]; }
    int64_t oldest() const { return count < kCommands ? 0 : count - kCommands; }
  };
  struct Doing {
    const char* text = "";
    int64_t since_ns = 0;
  };
  Ring& RingOf(int coordinate, int rank) { return rings_[coordinate * plan_.ranks() + rank]; }
  // RankState::needs of a rank whose actions start at `begin`; `known` has their times.
  int64_t NeedsOf(uint32_t begin, absl::Span<const ActionTimes> known) const;
  // The rank's commands with those of the step under way.
  std::vector<Command> CommandsOf(int coordinate, int rank) const;
  // The start of a coordinate's first command.
  int64_t Begin(int coordinate) const;
  std::string NameOf(const Command& command) const;

  const Plan& plan_;
  const std::vector<Recorder*> recorders_;
  const LocalRanks& local_;
  const Device* const device_;
  std::vector<ActionTimes> known_;  // room for a rank's actions
  mutable std::mutex mutex_;        // guards the members below
  int64_t step_ = 0;
  std::vector<Ring> rings_;  // by rank of the mesh
  Doing doing_;
};

}  // namespace stringline
