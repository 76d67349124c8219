// A rank is a row of slots, each free or with a group. A walk over the row, free slots filled with
// weight gradients, gives both the rank's peak and the filled order. To tighten, a group tries the
// earlier free slots one by one until the peak does not rise.
#include "schedlang/orders/timetable.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// The slots of a rank: a row of groups and free slots.
class SlotRow {
 public:
  static constexpr int32_t kFree = -1;

  // actions[begin] .. actions[end - 1] of the timetable; `base` is the slot of index 0.
  SlotRow(const Timetable& timetable, uint32_t begin, uint32_t end, int64_t base)
      : actions_(absl::MakeConstSpan(timetable.actions)), base_(base) {
    absl::flat_hash_map<std::pair<int32_t, int32_t>, bool> done;
    for (uint32_t i = begin; i < end; ++i) {
      const Action& action = actions_[i];
      if (action.kind == ActionKind::kWeightGradient) {
        done[{action.stage.value, action.microbatch.value}] = true;
      }
    }
    waits_.resize(end - begin, false);
    begin_ = begin;
    for (uint32_t i = begin; i < end; ++i) {
      const Action& action = actions_[i];
      waits_[i - begin] = action.kind == ActionKind::kInputGradient &&
                          !done.contains({action.stage.value, action.microbatch.value});
      if (!action.joined) Put(timetable.slots[i], static_cast<int32_t>(i));
    }
  }

  bool IsFree(int64_t slot) const {
    const auto at = static_cast<size_t>(slot - base_);
    return at >= row_.size() || row_[at] == kFree;
  }
  void Put(int64_t slot, int32_t group) {
    const auto at = static_cast<size_t>(slot - base_);
    if (at >= row_.size()) row_.resize(at + 1, kFree);
    row_[at] = group;
  }
  void Clear(int64_t slot) { row_[static_cast<size_t>(slot - base_)] = kFree; }

  // Walks the row with the weight gradients filled in: `group(index)` and `weight(index of its I)`.
  template <typename Group, typename Weight>
  void Walk(Group group, Weight weight) const {
    pending_.clear();
    size_t oldest = 0;
    size_t begin = 0, end = row_.size();
    while (begin < end && row_[begin] == kFree) ++begin;
    while (end > begin && row_[end - 1] == kFree) --end;
    for (size_t at = begin; at < end; ++at) {
      if (row_[at] == kFree) {
        if (oldest < pending_.size()) weight(pending_[oldest++]);
        continue;
      }
      group(static_cast<uint32_t>(row_[at]));
      auto i = static_cast<uint32_t>(row_[at]);
      do {
        if (waits_[i - begin_]) pending_.push_back(i);
        ++i;
      } while (i < begin_ + waits_.size() && actions_[i].joined);
    }
    while (oldest < pending_.size()) weight(pending_[oldest++]);
  }

  int64_t length() const { return static_cast<int64_t>(row_.size()); }

  int Peak() const {
    int live = 0, peak = 0;
    Walk(
        [&](uint32_t i) {
          int released = 0;
          do {
            const int change = ActivationChange(actions_[i].kind);
            (change > 0 ? live : released) += change;
            ++i;
          } while (i < begin_ + waits_.size() && actions_[i].joined);
          peak = std::max(peak, live);
          live += released;
        },
        [&](uint32_t) { --live; });
    return peak;
  }

 private:
  const absl::Span<const Action> actions_;
  int64_t base_;
  uint32_t begin_ = 0;
  std::vector<int32_t> row_;  // by slot - base: the first action of the group, or kFree
  std::vector<bool> waits_;   // by action - begin: an I whose W is to be filled in
  mutable std::vector<uint32_t> pending_;
};

int64_t LowestSlot(const Timetable& timetable) {
  return timetable.slots.empty()
             ? 0
             : *std::min_element(timetable.slots.begin(), timetable.slots.end());
}

class Tightening {
 public:
  Tightening(const Plan& stages, int64_t most_slots, Timetable* timetable)
      : stages_(stages),
        timetable_(*timetable),
        base_(LowestSlot(*timetable)),
        slots_left_(most_slots),
        remakes_(stages.stages.size(), false) {
    for (size_t r = 0; r + 1 < timetable_.first.size(); ++r) {
      rows_.emplace_back(timetable_, timetable_.first[r], timetable_.first[r + 1], base_);
      peaks_.push_back(rows_.back().Peak());
      for (uint32_t i = timetable_.first[r]; i < timetable_.first[r + 1]; ++i) {
        rank_of_.push_back(static_cast<int>(r));
      }
    }
    for (uint32_t i = 0; i < timetable_.actions.size(); ++i) {
      const Action& action = timetable_.actions[i];
      const Key key = KeyOf(action.kind, action.stage, action.microbatch.value);
      slot_of_[key] = timetable_.slots[i];
      if (action.kind == ActionKind::kRecompute) remakes_[action.stage.value] = true;
      FindSteadyPhase(action, timetable_.slots[i]);
    }
  }

  bool Run() {
    std::vector<uint32_t> groups;
    for (uint32_t i = 0; i < timetable_.actions.size(); ++i) {
      if (!timetable_.actions[i].joined) groups.push_back(i);
    }
    std::stable_sort(groups.begin(), groups.end(), [this](uint32_t a, uint32_t b) {
      return timetable_.slots[a] < timetable_.slots[b];
    });
    for (const uint32_t group : groups) {
      // An UPDATE stays behind the gradients of its step.
      const bool updates = timetable_.actions[group].kind == ActionKind::kUpdate;
      if (!updates && !IsSteady(group)) Move(group);
      if (slots_left_ < 0) return false;
    }
    Sort();
    return true;
  }

 private:
  using Key = std::pair<int64_t, int32_t>;  // stage and kind, microbatch; an I is found as a B is
  static Key KeyOf(ActionKind kind, StageId stage, int32_t microbatch) {
    if (kind == ActionKind::kInputGradient) kind = ActionKind::kBackward;
    return {stage.value * int64_t{kActionKinds} + static_cast<int>(kind), microbatch};
  }

  struct Phase {
    int64_t first_input_gradient = INT64_MAX;
    int64_t last_forward = INT64_MIN;
  };

  void FindSteadyPhase(const Action& action, int64_t slot) {
    if (!stages_.graph.In(action.stage).empty()) return;
    const auto pipe = static_cast<size_t>(stages_.stage(action.stage).pipe);
    if (phases_.size() <= pipe) phases_.resize(pipe + 1);
    Phase& phase = phases_[pipe];
    if (action.kind == ActionKind::kForward) {
      phase.last_forward = std::max(phase.last_forward, slot);
    } else if (EffectsOf(action.kind).gives & kInGrad) {
      phase.first_input_gradient = std::min(phase.first_input_gradient, slot);
    }
  }

  bool IsSteady(uint32_t group) const {
    const int64_t slot = timetable_.slots[group];
    const auto pipe = static_cast<size_t>(stages_.stage(timetable_.actions[group].stage).pipe);
    return pipe < phases_.size() && phases_[pipe].first_input_gradient <= slot &&
           slot <= phases_[pipe].last_forward;
  }

  // The first slot behind the dependencies of `action`.
  int64_t Earliest(const Action& action) const {
    int64_t slot = base_;
    const int32_t m = action.microbatch.value;
    const auto after = [&](ActionKind kind, StageId stage, int32_t microbatch) {
      const auto it = slot_of_.find(KeyOf(kind, stage, microbatch));
      if (it != slot_of_.end()) slot = std::max(slot, it->second + 1);
    };
    const Values needs = EffectsOf(action.kind, remakes_[action.stage.value]).needs;
    if (needs & kInput) {
      for (const Edge& edge : stages_.GraphOf(action.microbatch).In(action.stage)) {
        after(ActionKind::kForward, edge.from, m);
      }
    }
    if (needs & (kSaved | kKept)) after(ActionKind::kForward, action.stage, m);
    if (needs & kSaved) after(ActionKind::kRecompute, action.stage, m);
    if (needs & kHosted) after(ActionKind::kOffload, action.stage, m);
    const bool brought = (needs & (kSaved | kKept)) && action.kind != ActionKind::kOffload;
    if (brought) after(ActionKind::kFetch, action.stage, m);
    if (needs & kOutGrad) {
      for (const Edge& edge : stages_.GraphOf(action.microbatch).Out(action.stage)) {
        after(ActionKind::kInputGradient, edge.to, m);
      }
    }
    if (needs & kStash) after(ActionKind::kInputGradient, action.stage, m);
    if (m > 0) after(action.kind, action.stage, m - 1);
    return slot;
  }

  void Move(uint32_t group) {
    const int rank = rank_of_[group];
    uint32_t end = group;
    int64_t earliest = base_;
    do {
      earliest = std::max(earliest, Earliest(timetable_.actions[end]));
      ++end;
    } while (end < timetable_.first[rank + 1] && timetable_.actions[end].joined);
    const int64_t from = timetable_.slots[group];
    SlotRow& row = rows_[rank];
    for (int64_t slot = earliest; slot < from && slots_left_ >= 0; ++slot) {
      --slots_left_;
      if (!row.IsFree(slot)) continue;
      slots_left_ -= row.length();
      row.Clear(from);
      row.Put(slot, static_cast<int32_t>(group));
      if (row.Peak() > peaks_[rank]) {
        row.Clear(slot);
        row.Put(from, static_cast<int32_t>(group));
        continue;
      }
      for (uint32_t i = group; i < end; ++i) {
        const Action& action = timetable_.actions[i];
        timetable_.slots[i] = slot;
        slot_of_[KeyOf(action.kind, action.stage, action.microbatch.value)] = slot;
      }
      return;
    }
  }

  // Sorts each rank's actions by slot again.
  void Sort() {
    std::vector<uint32_t> order(timetable_.actions.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t r = 0; r + 1 < timetable_.first.size(); ++r) {
      std::stable_sort(
          order.begin() + timetable_.first[r], order.begin() + timetable_.first[r + 1],
          [this](uint32_t a, uint32_t b) { return timetable_.slots[a] < timetable_.slots[b]; });
    }
    Timetable sorted;
    sorted.first = timetable_.first;
    for (const uint32_t i : order) {
      sorted.actions.push_back(timetable_.actions[i]);
      sorted.slots.push_back(timetable_.slots[i]);
    }
    timetable_ = std::move(sorted);
  }

  const Plan& stages_;
  Timetable& timetable_;
  const int64_t base_;
  int64_t slots_left_;  // the number of looks left
  std::vector<SlotRow> rows_;
  std::vector<int> peaks_;     // by rank, before anything moves
  std::vector<int> rank_of_;   // by action
  std::vector<Phase> phases_;  // by pipe
  std::vector<bool> remakes_;  // by stage: it has R
  absl::flat_hash_map<Key, int64_t> slot_of_;
};

}  // namespace

bool Tighten(const Plan& stages, int64_t most_slots, Timetable* timetable) {
  return Tightening(stages, most_slots, timetable).Run();
}

void FillWeightGradients(Timetable* timetable) {
  const int64_t base = LowestSlot(*timetable);
  Timetable filled;
  for (size_t r = 0; r + 1 < timetable->first.size(); ++r) {
    const uint32_t begin = timetable->first[r], end = timetable->first[r + 1];
    const auto append = [&](Action action, int64_t slot) {
      filled.actions.push_back(action);
      filled.slots.push_back(slot);
    };
    int64_t last = base;
    SlotRow(*timetable, begin, end, base)
        .Walk(
            [&](uint32_t i) {
              last = timetable->slots[i];
              do {
                append(timetable->actions[i], last);
                ++i;
              } while (i < end && timetable->actions[i].joined);
            },
            [&](uint32_t i) {
              Action weight = timetable->actions[i];
              weight.kind = ActionKind::kWeightGradient;
              weight.joined = false;
              append(weight, ++last);
            });
    filled.first.push_back(static_cast<uint32_t>(filled.actions.size()));
  }
  *timetable = std::move(filled);
}

}  // namespace stringline
