#include "executor/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/placement.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/effects.h"

namespace stringline {
namespace {

// A place in a rank's list of groups, counted from 1; 0: before all of them.
struct Moment {
  int rank = -1;
  int group = 0;
};

using Clock = std::vector<int>;

bool KnowsEndOf(const Clock& clock, Moment moment) { return clock[moment.rank] >= moment.group; }

void Join(Clock* clock, const Clock& other) {
  for (size_t r = 0; r < clock->size(); ++r) (*clock)[r] = std::max((*clock)[r], other[r]);
}

// A million microbatches of a large model may pass 64 bits: the sum ends at kMostRankBytes, and
// whoever asks for so much memory is told that it is not there.
void AddBytes(int64_t bytes, int64_t* sum) {
  SL_CHECK(bytes <= kMostRankBytes) << bytes;
  *sum = std::min(*sum + AlignUp(bytes), kMostRankBytes);
}

// The slots of one rank.
class Slots {
 public:
  // A slot of `bytes` bytes for a value that is born when `clock` holds and dies with `death`.
  int64_t Take(int64_t bytes, StageValue held, const Clock& clock, Moment death) {
    std::vector<Slot>& same_size = by_size_[bytes];
    for (Slot& slot : same_size) {
      if (!KnowsEndOf(clock, slot.free_after)) continue;
      slot.free_after = death;
      return slot.offset;
    }
    same_size.push_back({memory_.bytes, death});
    AddBytes(bytes, &memory_.bytes);
    AddBytes(bytes, &memory_.by_value[held]);
    return same_size.back().offset;
  }
  const RankMemory& memory() const { return memory_; }

 private:
  struct Slot {
    int64_t offset;
    Moment free_after;
  };
  std::map<int64_t, std::vector<Slot>> by_size_;
  RankMemory memory_;
};

class Planner {
 public:
  Planner(const Plan& plan, absl::Span<const StageBytes> stages, const std::vector<bool>& halved)
      : plan_(plan),
        stages_(stages),
        halved_(halved),
        slots_(plan.ranks()),
        group_of_(plan.actions.size(), 0) {
    const size_t values = plan.stages.size() * plan.microbatches;
    memory_.microbatches = plan.microbatches;
    memory_.offsets.assign(values * kStageValues, -1);
    forward_.assign(values, {});
    backward_.assign(values, {});
    weight_.assign(values, {});
    output_clock_.resize(values);
    in_grad_clock_.resize(values);
    clocks_.assign(plan.ranks(), Clock(plan.ranks(), 0));
    next_.assign(plan.first.begin(), plan.first.end() - 1);
    FindMoments();
  }

  absl::StatusOr<MemoryPlan> Walk() {
    size_t left = 0;
    for (const Action& action : plan_.actions) left += IsCompute(action.kind) ? 1 : 0;
    for (bool moved = true; moved && left > 0;) {
      moved = false;
      for (int r = 0; r < plan_.ranks(); ++r) {
        while (size_t parts = PerformNextGroup(r)) {
          moved = true;
          left -= parts;
        }
      }
    }
    if (left > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the plan does not end: ", left, " actions wait for what never comes"));
    }
    for (const Slots& slots : slots_) memory_.ranks.push_back(slots.memory());
    return std::move(memory_);
  }

 private:
  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + microbatch.value;
  }

  // Numbers the groups of every rank, and notes when each stage does what.
  void FindMoments() {
    for (int r = 0; r < plan_.ranks(); ++r) {
      int group = 0;
      for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1]; ++i) {
        const Action& action = plan_.actions[i];
        if (!IsCompute(action.kind)) continue;
        if (!action.joined) ++group;
        group_of_[i] = group;
        const size_t value = Index(action.stage, action.microbatch);
        if (action.kind == ActionKind::kForward) forward_[value] = {r, group};
        if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
          backward_[value] = {r, group};
        }
        if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
          weight_[value] = {r, group};
        }
      }
    }
  }

  // The clock of a value that another rank gives to `action`; null when the neighbour lives here or
  // does not exist.
  const Clock* Message(const Action& action, bool* missing) const {
    const Stage& stage = plan_.stage(action.stage);
    const Values needs = EffectsOf(action.kind).needs;
    const bool forward = (needs & kInput) != 0;
    if (!forward && (needs & kOutGrad) == 0) return nullptr;
    const StageId neighbour = forward ? stage.previous : stage.next;
    if (!neighbour.valid() || plan_.stage(neighbour).rank == stage.rank) return nullptr;
    const auto& clocks = forward ? output_clock_ : in_grad_clock_;
    const Clock& clock = clocks[Index(neighbour, action.microbatch)];
    if (clock.empty()) *missing = true;
    return &clock;
  }

  // Performs the next group of the rank if its messages are there; returns its number of parts.
  size_t PerformNextGroup(int rank) {
    const uint32_t last = plan_.first[rank + 1];
    uint32_t begin = next_[rank];
    while (begin < last && !IsCompute(plan_.actions[begin].kind)) ++begin;
    if (begin == last) return 0;
    uint32_t end = begin;
    Clock start = clocks_[rank];
    do {
      bool missing = false;
      const Clock* message = Message(plan_.actions[end], &missing);
      if (missing) return 0;
      if (message != nullptr) Join(&start, *message);
      ++end;
    } while (end < last && plan_.actions[end].joined);
    Clock finish = start;
    finish[rank] = group_of_[begin];
    for (uint32_t i = begin; i < end; ++i) Place(plan_.actions[i], start, finish);
    clocks_[rank] = std::move(finish);
    next_[rank] = end;
    return end - begin;
  }

  // Places what a part gives. On its own rank a value is written while the group runs, so what was
  // in its slot must be dead at `start`; a message arrives on the other rank after `finish`.
  void Place(const Action& action, const Clock& start, const Clock& finish) {
    const Stage& stage = plan_.stage(action.stage);
    const size_t value = Index(action.stage, action.microbatch);
    auto keep = [&](StageValue held, Moment death) {
      PlaceValue(action.stage, action.microbatch, held, start, death);
    };
    const Values gives = EffectsOf(action.kind).gives;
    if (gives & kSaved) {
      keep(StageValue::kSavedForInput, backward_[value]);
      keep(StageValue::kSavedForWeight, weight_[value]);
    }
    const bool halves =
        action.kind == ActionKind::kBackward && !halved_.empty() && halved_[action.stage.value];
    if ((gives & kStash) || halves) keep(StageValue::kStash, weight_[value]);
    if ((gives & kOutput) && stage.next.valid()) {
      HandOn(action, stage.next, StageValue::kOutput, StageValue::kInput,
             forward_[Index(stage.next, action.microbatch)], start, finish);
      output_clock_[value] = finish;
    }
    if ((gives & kInGrad) && stage.previous.valid()) {
      HandOn(action, stage.previous, StageValue::kInGrad, StageValue::kOutGrad,
             backward_[Index(stage.previous, action.microbatch)], start, finish);
      in_grad_clock_[value] = finish;
    }
  }

  void HandOn(const Action& action, StageId to, StageValue given, StageValue taken, Moment death,
              const Clock& start, const Clock& finish) {
    if (plan_.stage(to).rank == plan_.stage(action.stage).rank) {
      PlaceValue(to, action.microbatch, taken, start, death);
      OffsetAt(action.stage, action.microbatch, given) = OffsetAt(to, action.microbatch, taken);
    } else {
      PlaceValue(action.stage, action.microbatch, given, start, death);
      PlaceValue(to, action.microbatch, taken, finish, death);
    }
  }

  void PlaceValue(StageId stage, MicrobatchId microbatch, StageValue held, const Clock& birth,
                  Moment death) {
    const int64_t bytes = stages_[stage.value][held];
    if (bytes == 0) return;
    // A value that nobody uses any more keeps its slot to the end.
    if (death.rank < 0) death = {plan_.stage(stage).rank.value, INT32_MAX};
    OffsetAt(stage, microbatch, held) =
        slots_[plan_.stage(stage).rank.value].Take(bytes, held, birth, death);
  }

  int64_t& OffsetAt(StageId stage, MicrobatchId microbatch, StageValue held) {
    return memory_.offsets[Index(stage, microbatch) * kStageValues + static_cast<size_t>(held)];
  }

  const Plan& plan_;
  absl::Span<const StageBytes> stages_;
  const std::vector<bool>& halved_;
  MemoryPlan memory_;
  std::vector<Slots> slots_;
  std::vector<int> group_of_;    // by action
  std::vector<Moment> forward_;  // by stage and microbatch: when F, B or I, B or W run
  std::vector<Moment> backward_;
  std::vector<Moment> weight_;
  std::vector<Clock> output_clock_;  // by stage and microbatch; empty: not given yet
  std::vector<Clock> in_grad_clock_;
  std::vector<Clock> clocks_;   // by rank: after its groups so far
  std::vector<uint32_t> next_;  // by rank: the action that comes next
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const Plan& lowered, absl::Span<const StageBytes> stages,
                                      const std::vector<bool>& halved) {
  SL_CHECK(stages.size() == lowered.stages.size()) << stages.size();
  return Planner(lowered, stages, halved).Walk();
}

}  // namespace stringline
