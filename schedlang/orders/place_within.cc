// The walk holds the rank's bytes as its list counts them. What a group lacks is made free before
// it: a microbatch that leaves is chosen when the room is needed, with all later needs known.
#include "schedlang/orders/place_within.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

constexpr int64_t kNeverNeeded = -1;

// A microbatch of a stage between its F and the first action that needs what it kept.
struct Kept {
  Action forward;
  int64_t begun = 0;   // the group of its F
  int64_t needed = 0;  // the group of its R, B or I
  enum class Where : uint8_t { kBefore, kDevice, kHost, kBack, kDone } where = Where::kBefore;
};

// The copies of a rank: a walk along its list.
class CopyWalk {
 public:
  CopyWalk(const Plan& plan, RankId rank, const CopyRoom& room, const CopyPace& pace)
      : plan_(plan),
        room_(room),
        list_(plan.of(rank)),
        capacity_(room.capacity[static_cast<size_t>(rank.value)]),
        host_(room.host[static_cast<size_t>(rank.value)]),
        ahead_(pace.ahead[static_cast<size_t>(rank.value)]),
        behind_(pace.behind[static_cast<size_t>(rank.value)]),
        swaps_(pace.swaps) {
    FindKept();
  }

  // False if a group has no room.
  bool Run(std::vector<Action>* out) {
    for (size_t group = 0; group + 1 < first_.size(); ++group) {
      if (!Perform(static_cast<int64_t>(group), out)) return false;
    }
    return true;
  }

 private:
  const ActionRoom& RoomOf(const Action& action) const {
    return room_.stages[static_cast<size_t>(action.stage.value)];
  }

  // Notes the groups, and for each microbatch those of its F and of the first action that needs it.
  void FindKept() {
    absl::flat_hash_map<std::pair<int32_t, int32_t>, size_t> of;
    for (size_t i = 0; i < list_.size(); ++i) {
      const Action& action = list_[i];
      if (!action.joined) first_.push_back(i);
      const auto group = static_cast<int64_t>(first_.size()) - 1;
      const std::pair key(action.stage.value, action.microbatch.value);
      if (action.kind == ActionKind::kForward) {
        of[key] = kept_.size();
        kept_.push_back({action, group, kNeverNeeded});
        continue;
      }
      const auto own = of.find(key);
      if (own == of.end() || (EffectsOf(plan_, action).needs & (kSaved | kKept)) == 0) continue;
      Kept& kept = kept_[own->second];
      if (kept.needed == kNeverNeeded) kept.needed = group;
    }
    first_.push_back(list_.size());
  }

  // The rank's need while the group runs, beside what it holds.
  int64_t NeedOf(int64_t group) const {
    int64_t need = 0;
    for (size_t i = first_[static_cast<size_t>(group)]; i < first_[static_cast<size_t>(group) + 1];
         ++i) {
      if (!IsCompute(list_[i].kind)) continue;
      need += RoomOf(list_[i]).during[static_cast<size_t>(list_[i].kind)];
    }
    return need;
  }

  // The microbatch to leave before the group: of those that are not needed before `until`, the one
  // needed last with an F so far behind, or else the oldest. Null if there is none.
  Kept* Leaver(int64_t group, int64_t until) {
    Kept* last = nullptr;
    Kept* oldest = nullptr;
    for (Kept& kept : kept_) {
      const int64_t moved = RoomOf(kept.forward).moved;
      if (kept.where != Kept::Where::kDevice || kept.needed <= until || moved <= 0) continue;
      if (hosted_ + moved > host_) continue;
      if (oldest == nullptr) oldest = &kept;
      if (group - kept.begun <= behind_) continue;
      if (last == nullptr || kept.needed > last->needed) last = &kept;
    }
    return last != nullptr ? last : oldest;
  }

  // Lets microbatches leave before the group until `need` more has room. They are not needed up to
  // the group `until`. False, and nothing leaves, if there is no room.
  bool MakeRoom(int64_t group, int64_t need, int64_t until) {
    std::vector<Kept*> leavers;
    while (held_ + need > capacity_) {
      Kept* const leaver = Leaver(group, until);
      if (leaver == nullptr) break;
      Move(leaver, Kept::Where::kHost);
      leavers.push_back(leaver);
    }
    const bool has_room = held_ + need <= capacity_;
    for (Kept* const leaver : leavers) {
      if (has_room) {
        offloads_.push_back(leaver->forward);
      } else {
        Move(leaver, Kept::Where::kDevice);
      }
    }
    return has_room;
  }

  void Move(Kept* kept, Kept::Where where) {
    const int64_t moved = RoomOf(kept->forward).moved;
    const bool leaves = where == Kept::Where::kHost;
    held_ += leaves ? -moved : moved;
    // The D before a group stand before its U.
    (where == Kept::Where::kBack ? returned_ : hosted_) += leaves ? moved : -moved;
    kept->where = where;
  }

  bool Fetch(Kept* kept, int64_t group, int64_t need) {
    const int64_t until = std::max(kept->needed, group);
    if (!MakeRoom(group, need + RoomOf(kept->forward).moved, until)) return false;
    Move(kept, Kept::Where::kBack);
    fetches_.push_back(kept->forward);
    return true;
  }

  // The copies before the group, and the group.
  bool Perform(int64_t group, std::vector<Action>* out) {
    offloads_.clear();
    fetches_.clear();
    const int64_t need = NeedOf(group);
    std::vector<Kept*> awaited;  // on the host, and needed soon
    for (Kept& kept : kept_) {
      if (kept.where != Kept::Where::kHost) continue;
      if (kept.needed != kNeverNeeded && kept.needed <= group + ahead_) awaited.push_back(&kept);
    }
    std::stable_sort(awaited.begin(), awaited.end(),
                     [](const Kept* a, const Kept* b) { return a->needed < b->needed; });
    for (Kept* const kept : awaited) {
      if (kept->needed == group && !Fetch(kept, group, need)) return false;
    }
    if (!MakeRoom(group, need, group)) return false;
    for (Kept* const kept : awaited) {
      if (kept->needed == group) continue;
      const bool has_room = held_ + need + RoomOf(kept->forward).moved <= capacity_;
      if ((!has_room && !swaps_) || !Fetch(kept, group, need)) break;
    }
    for (std::vector<Action>* const copies : {&offloads_, &fetches_}) {
      const bool leave = copies == &offloads_;
      for (Action copy : *copies) {
        copy.kind = leave ? ActionKind::kOffload : ActionKind::kFetch;
        copy.joined = false;
        out->push_back(copy);
      }
    }
    for (size_t i = first_[static_cast<size_t>(group)]; i < first_[static_cast<size_t>(group) + 1];
         ++i) {
      out->push_back(list_[i]);
      if (IsCompute(list_[i].kind)) {
        held_ += RoomOf(list_[i]).after[static_cast<size_t>(list_[i].kind)];
      }
    }
    hosted_ += std::exchange(returned_, 0);
    for (Kept& kept : kept_) {
      if (kept.begun == group) kept.where = Kept::Where::kDevice;
      if (kept.needed == group) kept.where = Kept::Where::kDone;
    }
    return true;
  }

  const Plan& plan_;
  const CopyRoom& room_;
  const absl::Span<const Action> list_;
  const int64_t capacity_, host_;
  const int64_t ahead_, behind_;
  const bool swaps_;
  std::vector<size_t> first_;  // by group, its first action in the list; and the list's length
  std::vector<Kept> kept_;     // in the order of their F
  int64_t held_ = 0;
  int64_t hosted_ = 0;
  int64_t returned_ = 0;                    // of these, before the group at hand; below 0
  std::vector<Action> offloads_, fetches_;  // before the group at hand
};

}  // namespace

std::optional<Plan> PlaceCopiesWithin(const Plan& plan, const CopyRoom& room, const CopyPace& pace,
                                      int* lacking) {
  Plan out = plan;
  out.actions.clear();
  for (int r = 0; r < plan.ranks(); ++r) {
    if (!CopyWalk(plan, RankId(r), room, pace).Run(&out.actions)) {
      if (lacking != nullptr) *lacking = r;
      return std::nullopt;
    }
    out.first[static_cast<size_t>(r) + 1] = static_cast<uint32_t>(out.actions.size());
  }
  return out;
}

bool IsWithin(const Plan& plan, const CopyRoom& room) {
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto list = plan.of(RankId(r));
    const auto at = static_cast<size_t>(r);
    int64_t held = 0, hosted = 0;
    for (size_t i = 0; i < list.size();) {
      const auto group = GroupAt(list, i);
      i += group.size();
      int64_t need = 0, then = 0;
      for (const Action& action : group) {
        const ActionRoom& own = room.stages[static_cast<size_t>(action.stage.value)];
        const bool leaves = action.kind == ActionKind::kOffload;
        if (IsCopy(action.kind)) {
          held += leaves ? -own.moved : own.moved;
          hosted += leaves ? own.moved : -own.moved;
        } else if (IsCompute(action.kind)) {
          need += own.during[static_cast<size_t>(action.kind)];
          then += own.after[static_cast<size_t>(action.kind)];
        }
      }
      if (held + need > room.capacity[at] || hosted > room.host[at]) return false;
      held += then;
    }
  }
  return true;
}

// As values.def says: without R, F gives what is saved; with R, what R begins with.
ActionRoom RoomOf(const StageMemory& memory, bool remakes, bool offloads) {
  const int64_t for_input = memory[MemoryClass::kSavedForInput];
  const int64_t for_weight = memory[MemoryClass::kSavedForWeight];
  const int64_t stash = memory[MemoryClass::kStash];
  const int64_t saved = for_input + for_weight;
  const int64_t kept = remakes ? memory[MemoryClass::kKept] : 0;
  const int64_t of_forward = remakes ? kept : saved;
  const int64_t messages = 2 * memory[MemoryClass::kMessages];
  ActionRoom room;
  room.during = {of_forward + messages, messages, stash + messages, 0, saved};
  room.after = {of_forward, -saved - kept, stash - for_input, -stash - for_weight - kept, saved};
  room.moved = offloads ? of_forward : 0;
  return room;
}

void ClimbPace(int ranks, bool swaps, bool each_rank, const ValueOfPace& value) {
  const auto count = static_cast<size_t>(ranks);
  CopyPace pace{std::vector<int64_t>(count, 1), std::vector<int64_t>(count, 1), swaps};
  std::pair<int64_t, int64_t> least = value(pace);
  const auto climb = [&](size_t first, size_t last) {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (const std::pair<int64_t, int64_t> step : {std::pair(1, 0), {0, 1}, {1, 1}}) {
        CopyPace further = pace;
        for (size_t r = first; r < last; ++r) {
          further.ahead[r] += step.first;
          further.behind[r] += step.second;
        }
        const auto tried = value(further);
        if (!(tried < least)) continue;
        least = tried;
        pace = std::move(further);
        is_better = true;
      }
    }
  };
  climb(0, count);
  for (size_t r = 0; r < count && each_rank; ++r) climb(r, r + 1);
}

}  // namespace stringline
