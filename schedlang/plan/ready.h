// Ready order: the lists of a plan with a window (Plan::window) are preferences.
//
// A rank that is free performs the first computation, in the order of its list, that is
//
//   near   among the first `window` computations left of the list,
//   ready  its values are on the rank: a message has arrived, or the rank has made them, and that
//   fits   performed first, with the rest of the list behind it in its order, it exceeds no limit.
//
// If there is none it waits. The limits of a rank are what its list itself reaches, and `slack`
// more: the activations of the rank, those of each of its stages (from F to B or W), and the
// weight gradients that each stage leaves for later (from I to W).
//
// Every order that can happen ends. At each moment the rest of a list, in its order, exceeds no
// limit: at the beginning by their definition, and a computation is performed only if that stays
// so. Hence the head of a list always fits. The lists and the dependencies between computations
// form no cycle (the rule `progress`), so they have a topological order. The first computation in
// it that is left is the head of its list, and all that gives it values has been performed: it is
// near, ready or about to be, and fits. So no state is stuck, and no limit is ever exceeded.
//
// Every stage keeps its order. If all stages of a pipe list their F, their B or I, and their W in
// one order of microbatches (FindReadyFault), they perform them in that order, whatever is ready
// first: by induction along the pipe, values become ready in that order, if the messages of a stage
// in one direction arrive as they were sent; and of two that are ready the rank takes the earlier
// one, which fits if the later does. So the k-th message of a stage and direction is known before
// the step, gradients are added up in one order, and the k-th activation of a stage may use again
// the memory of the one before it by so many as the stage may hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The computations of which each stage keeps an order.
inline constexpr size_t kReadySorts = 3;
inline constexpr const char* kReadySortNames[kReadySorts] = {"F", "B or I", "W"};
constexpr size_t ReadySortOf(ActionKind computation) {
  if (computation == ActionKind::kForward) return 0;
  return computation == ActionKind::kWeightGradient ? 2 : 1;
}

// The most that a stage may hold at once, in microbatches.
struct StageRoom {
  int activations = 0;  // from F to B or W
  int deferred = 0;     // from I to W
};
// By stage of a plan with a window, and by rank the most activations of all its stages.
struct ReadyRoom {
  std::vector<StageRoom> stages;
  std::vector<int> ranks;
};
ReadyRoom RoomOf(const Plan& plan);

// Something that ready order cannot perform, at an action; without one, in all of the plan.
struct ReadyFault {
  int64_t action = -1;  // index into Plan::actions
  std::string text;
};
// The first fault of a plan with a window, lowered or not, that does each microbatch once.
std::optional<ReadyFault> FindReadyFault(const Plan& plan);

// The values that computations give each other. What no other gives, as a batch, is there at once.
class ValueTakers {
 public:
  explicit ValueTakers(const Plan& plan);

  // The computations, indices into Plan::actions, that plan.actions[action] gives a value.
  absl::Span<const uint32_t> TakersOf(uint32_t action) const {
    return absl::MakeConstSpan(takers_[action].of).first(takers_[action].count);
  }
  // By action, the number of computations that give it a value.
  const std::vector<uint8_t>& needs() const { return needs_; }

 private:
  struct Takers {
    uint32_t of[2] = {};
    uint8_t count = 0;
  };
  std::vector<Takers> takers_;  // by action
  std::vector<uint8_t> needs_;
};

// The computations left of a rank's list.
class ReadyList {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // `plan` outlives the list.
  ReadyList(const Plan& plan, RankId rank, const ReadyRoom& room);

  bool empty() const { return next_ == left_.size(); }
  // The computation that the rank performs next, an index into Plan::actions, if those for which
  // is_ready(index) holds are ready; kNone: it waits. Cost: linear in the window.
  template <typename IsReady>
  uint32_t First(IsReady is_ready) {
    const size_t end = std::min(left_.size(), next_ + static_cast<size_t>(plan_->window));
    uint32_t found = kNone;
    for (size_t k = next_; k < end && found == kNone; ++k) {
      if (is_ready(left_[k]) && Fits(left_[k])) found = left_[k];
      Pass(left_[k]);
    }
    Return();
    return found;
  }
  // Performs a computation that First has found. Cost: linear in the window.
  void Perform(uint32_t action);

 private:
  // A number that a computation raises or lowers: now, its limit, and in the part of the list that
  // First has passed its change and the largest change on the way.
  struct Count {
    int now = 0;
    int most = 0;
    int ahead = 0;
    int ahead_most = 0;
  };
  struct Change {
    size_t count;
    int by;
  };

  absl::Span<const Change> ChangesOf(uint32_t action);
  bool Fits(uint32_t action);
  void Pass(uint32_t action);
  void Return();

  const Plan* plan_;
  std::vector<uint32_t> left_;  // from next_ on
  size_t next_ = 0;
  std::vector<int> place_of_;   // by stage of the plan, its place among the rank's; -1: elsewhere
  std::vector<Count> counts_;   // the rank's activations; then two of each of its stages
  std::vector<size_t> passed_;  // counts with a change ahead
  Change changes_[3] = {};
};

// The plan whose lists are those computations of `plan`, rank by rank: a performance of it, with
// neither window nor messages.
Plan AsPerformed(const Plan& plan, absl::Span<const std::vector<uint32_t>> order);

// The plan whose ranks perform the lists of `plan` as they are, likewise.
Plan InListOrder(const Plan& plan);

}  // namespace stringline
