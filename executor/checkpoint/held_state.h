// Copies of the training's state in this process's memory, from which the run goes on when another
// process is lost. The last two copies are kept: when a process is lost, the others may be one step
// apart.
//
// A process of a run with `sharding` also keeps the share of a neighbour: the process of the same
// ranks in the copy of the pipeline before its own, in a ring over the copies. So the
// state is whole without any copy whose keeper is left. Processes that go on ask each other for the
// values that they lack.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/held_share.h"
#include "executor/checkpoint/training_state.h"
#include "executor/engine/held_version.h"
#include "executor/engine/parcels.h"
#include "executor/training/step_history.h"
#include "executor/training/trainer.h"

namespace stringline {

class HeldState {
 public:
  using Age = std::pair<int, int64_t>;  // HeldVersion::age

  // `parcels` move shares between processes.
  explicit HeldState(Parcels* parcels) : parcels_(parcels) {}

  // The run has changed its processes `layout` times, and so many of them are now a copy of the
  // pipeline, or a whole number of copies: `ring` processes further is the neighbour.
  void SetLayout(int layout, int ring) { layout_ = {.number = layout, .ring = ring}; }

  // Copies the state of this process's ranks behind so many steps, and keeps a neighbour's share
  // where a share is in one process alone. All processes call it, between steps.
  absl::Status Take(int64_t step, const StepHistory& history, Trainer* trainer);

  // The copies, the newest first.
  std::vector<HeldVersion> versions() const;

  // A process that leaves gives its shares of a version to the process `to`, unless that is -1; one
  // that goes on takes over those of the processes in `from`.
  void HandOver(const Age& age, int to, const std::vector<int>& from);

  // The run goes on from a version, of which this process may hold nothing: others are dropped.
  void GoOnFrom(const Age& age);
  // Drops all that this process holds.
  void Drop() { copies_.clear(); }
  // True from GoOnFrom until Restore.
  bool goes_on() const { return goes_on_; }

  struct Restored {
    int64_t step = 0;
    StepHistory history;
  };
  // Writes the version into a trainer, with values of other processes where this one lacks some.
  // All processes call it. Unavailable, in all of them: nobody holds some values.
  absl::StatusOr<Restored> Restore(Trainer* trainer);

  // All processes have met: none has gone on without this one so far.
  void NoteMeeting();
  int64_t met_ns() const { return met_ns_; }

 private:
  struct Copy {
    int layout = 0;
    int64_t step = 0;
    StepHistory history;
    int count = 1;  // shares of the whole state
    std::vector<HeldShare> shares;
    Age age() const { return {layout, step}; }
  };
  struct Layout {
    int number = 0;
    int ring = 1;
    bool known = false;  // the others
    int count = 1;
    int own = 0;  // this process's share
    bool keeps = false;
  };

  absl::Status LearnLayout(const HeldTensors& own, World* world);
  absl::Status KeepNeighbour(World* world, Copy* copy);
  Copy* Find(const Age& age);
  // Chooses who gives values of the version to whom, and brings its history to all.
  absl::StatusOr<Gifts> AgreeOnGifts(const std::vector<StateTensor>& tensors,
                                     const HeldAndWanted& mine, World* world, Copy* copy);
  // Values of other processes for the version, as one more share, and its history.
  absl::Status Fetch(const std::vector<StateTensor>& tensors, World* world, Copy* copy);

  Parcels* const parcels_;
  std::deque<Copy> copies_;  // the newest first
  Layout layout_;
  bool goes_on_ = false;
  Age going_ = {0, 0};
  int64_t met_ns_ = 0;
};

}  // namespace stringline
