// The last commands of every rank, over all steps: what a run did before it failed. A command is an
// action of the plan: when its rank came to it, and when it had ended.
//
// The recorder has the step under way. When the next one starts, what it has is kept here, in rings
// of fixed size: a step allocates nothing. Of ranks of other processes whole steps are known, which
// all processes tell each other; of a step that fails only what ranks of this process did.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/local_ranks.h"
#include "executor/rank_states.h"
#include "executor/recorder.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

class FlightLog final : public RankStates {
 public:
  static constexpr int kCommands = 1000;  // of a rank

  // Everything passed outlives it. `recorders` by coordinate of the mesh.
  FlightLog(const Plan& lowered, std::vector<Recorder*> recorders, const LocalRanks& local,
            const Device* device);

  // Keeps what the recorders have of the last step, and starts the next one on all of them.
  void StartStep(int64_t now_ns);
  // What the ranks of this process do beside the plan's actions, from now on: "updates its
  // parameters". A text that stays.
  void Say(const char* doing);

  std::vector<RankState> Now() const override;
  // Of the ranks of a coordinate, oldest first; times count from the earliest. What has begun and
  // not ended is unfinished, and ends now.
  Timeline Record(int coordinate) const;
  // When each step of Record starts there, a line each: "step 12 starts at 48211".
  std::vector<std::string> DescribeSteps(int coordinate) const;
  // Whether something that a rank of this process had begun has not ended.
  bool HasUnfinished() const;
  bool HoldsRanksOf(int coordinate) const { return !local_.Of(coordinate).empty(); }
  int64_t steps() const { return step_; }  // that have begun
  int coordinates() const { return static_cast<int>(recorders_.size()); }

 private:
  struct Command {
    uint32_t action = 0;
    int32_t step = 0;
    ActionTimes times;
  };
  // The commands of a rank: `count` of them were written, at most kCommands are there.
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
  // The rank's commands with those of the step under way.
  // As RankState::needs: of the actions from `begin` on, of which this is known.
  int64_t NeedsOf(uint32_t begin, absl::Span<const ActionTimes> known) const;
  std::vector<Command> CommandsOf(int coordinate, int rank) const;
  // When the first command of a coordinate began.
  int64_t Begin(int coordinate) const;
  std::string NameOf(const Command& command) const;

  const Plan& plan_;
  const std::vector<Recorder*> recorders_;
  const LocalRanks& local_;
  const Device* const device_;
  int64_t step_ = 0;
  std::vector<ActionTimes> known_;  // room for a rank's actions
  mutable std::mutex mutex_;        // guards what follows
  std::vector<Ring> rings_;         // by rank of the mesh
  Doing doing_;
};

}  // namespace stringline
