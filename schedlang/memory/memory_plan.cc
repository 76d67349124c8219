// A single walk over the plan, group by group, in any order that messages allow. A group knows the
// clock of its rank, joined with those of its messages; its outputs are placed with that knowledge,
// on its own rank and on the receiving rank.
#include "schedlang/memory/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/memory/packing.h"
#include "schedlang/memory/slots.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/group_order.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

void Join(Clock* clock, const Clock& other) {
  for (size_t r = 0; r < clock->size(); ++r) (*clock)[r] = std::max((*clock)[r], other[r]);
}

// The values of a rank, in the order in which the walk finds them.
struct LivesOfRank {
  std::vector<ValueLife> values;
  std::vector<Clock> clocks;
  std::vector<size_t> places;  // of the values, in MemoryPlan::offsets
};

// The values of all ranks, placed by one rule.
struct Placed {
  std::vector<int64_t> offsets;  // as in MemoryPlan
  std::vector<Slots> slots;      // by rank
  std::vector<StageBytes> by_value;
};

class Planner {
 public:
  // `memory` has what ranks hold beside their blocks; `most` as for PlanMemory; `places_rank`, by
  // rank: whether its values are placed.
  Planner(const Plan& plan, absl::Span<const StageSizes> stages, Sharing sharing,
          absl::Span<const int64_t> most, std::vector<bool> places_rank, MemoryPlan memory)
      : plan_(plan),
        stages_(stages),
        most_(most),
        places_rank_(std::move(places_rank)),
        memory_(std::move(memory)),
        group_of_(plan.actions.size(), 0) {
    const size_t microbatches = static_cast<size_t>(plan.graph.entries()) * plan.microbatches;
    const size_t ranks = plan.ranks();
    if (HasCopies(plan)) {
      places_ = 2;
      forward_.assign(microbatches, 0);
    }
    const size_t values = microbatches * kBuiltInValues * places_;
    const size_t blocks = ranks * places_;  // behind those of the ranks, those of their hosts
    for (const bool cuts : {false, true}) {
      if (cuts && sharing == Sharing::kOneSize) break;
      placed_.push_back({std::vector<int64_t>(values, -1), std::vector<Slots>(blocks, Slots(cuts)),
                         std::vector<StageBytes>(ranks)});
    }
    lives_.resize(sharing == Sharing::kPacked ? ranks : 0);
    deaths_.assign(values, {-1, 0});
    output_clock_.resize(microbatches);
    in_grad_clock_.resize(microbatches);
    clocks_.assign(ranks, Clock(ranks, 0));
    next_.assign(plan.first.begin(), plan.first.end() - 1);
    FindDeaths();
  }

  absl::StatusOr<MemoryPlan> Walk() {
    size_t left = 0;
    for (const Action& action : plan_.actions) left += TakesTurn(action.kind) ? 1 : 0;
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
    return TakeSmallest();
  }

 private:
  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + microbatch.value;
  }

  // `back`: the place to which a U brings the value.
  size_t Index(StageId stage, MicrobatchId microbatch, StageValue value, bool back = false) const {
    return (Index(stage, microbatch) * kBuiltInValues + static_cast<size_t>(value)) * places_ +
           (back ? 1 : 0);
  }

  // A value of a microbatch on a rank, and the entry of its size and place.
  struct Key {
    StageId entry;
    RankId rank;
    MicrobatchId microbatch;
    StageValue value;
  };

  // Numbers the groups of every rank, and notes the group in which each value dies.
  void FindDeaths() {
    std::vector<bool> back(plan_.stages.size() * plan_.microbatches, false);  // a U has brought it
    for (int r = 0; r < plan_.ranks(); ++r) {
      int group = 0;
      for (uint32_t i = plan_.first[r]; i < plan_.first[r + 1]; ++i) {
        const Action& action = plan_.actions[i];
        if (!TakesTurn(action.kind)) continue;
        if (!action.joined) ++group;
        group_of_[i] = group;
        const size_t index = Index(action.stage, action.microbatch);
        if (action.kind == ActionKind::kForward && places_ > 1) forward_[index] = group;
        if (action.kind == ActionKind::kFetch) {
          back[index] = true;
          continue;
        }
        const Values copied = CopiedValues(plan_.stage(action.stage).remakes);
        ForEachOf(EffectsOf(plan_, action).releases, [&](StageValue value) {
          const bool again = back[index] && (copied & SetOf(value)) != 0;
          ForEachEntry(plan_, action, value, [&](StageId entry) {
            deaths_[Index(entry, action.microbatch, value, again)] = {r, group};
          });
          if (!again) return;
          deaths_[Index(action.stage, action.microbatch, StageValue::kHosted)] = {r, group};
        });
      }
    }
  }

  // Joins the clocks of the values that other ranks send to `action`. False if one of them is not
  // given yet.
  bool JoinMessages(const Action& action, Clock* start) const {
    const Values needs = EffectsOf(plan_, action).needs;
    const bool forward = (needs & kInput) != 0;
    if (!forward && (needs & kOutGrad) == 0) return true;
    const StageGraph& graph = plan_.GraphOf(action.microbatch);
    const auto& clocks = forward ? output_clock_ : in_grad_clock_;
    for (const Edge& edge : forward ? graph.In(action.stage) : graph.Out(action.stage)) {
      if (plan_.SameRank(edge.from, edge.to)) continue;
      const Clock& clock = clocks[Index(forward ? edge.from : edge.to, action.microbatch)];
      if (clock.empty()) return false;
      Join(start, clock);
    }
    return true;
  }

  // Performs the next group of the rank if its messages have arrived; returns its number of parts,
  // or 0.
  size_t PerformNextGroup(int rank) {
    const uint32_t last = plan_.first[rank + 1];
    uint32_t begin = next_[rank];
    while (begin < last && !TakesTurn(plan_.actions[begin].kind)) ++begin;
    if (begin == last) return 0;
    uint32_t end = begin;
    Clock start = clocks_[rank];
    do {
      if (!JoinMessages(plan_.actions[end], &start)) return 0;
      ++end;
    } while (end < last && plan_.actions[end].joined);
    Clock finish = start;
    finish[rank] = group_of_[begin];
    for (uint32_t i = begin; i < end; ++i) Place(plan_.actions[i], start, finish);
    clocks_[rank] = std::move(finish);
    next_[rank] = end;
    return end - begin;
  }

  // Places the outputs of a part. On its own rank a value is written while the group runs, so the
  // former values of its bytes must be dead at `start`; a message arrives on the other rank after
  // `finish`.
  void Place(const Action& action, const Clock& start, const Clock& finish) {
    const Stage& stage = plan_.stage(action.stage);
    const size_t index = Index(action.stage, action.microbatch);
    const Values gives = EffectsOf(plan_, action).gives;
    const bool back = action.kind == ActionKind::kFetch;
    ForEachOf(gives, [&](StageValue value) {
      if (ClassOf(value) == MemoryClass::kMessages) return;
      const Key key{action.stage, stage.rank, GivenTo(plan_, action.microbatch, value), value};
      const Moment death = DeathOf(key, back);
      if (IsOnHost(value)) {
        PlaceOnHost(action, start, death);
      } else {
        PlaceValue(key, start, death, back);
      }
    });
    if (action.kind == ActionKind::kBackward && stages_[action.stage.value].in_parts) {
      const int rank = stage.rank.value;
      PlaceValue({action.stage, stage.rank, action.microbatch, StageValue::kStash}, start,
                 {rank, finish[rank]});
    }
    const MicrobatchId m = action.microbatch;
    if (gives & kOutput) {
      for (const Edge& edge : plan_.GraphOf(m).Out(action.stage)) {
        HandOn({plan_.graph.EntryAtFrom(edge), stage.rank, m, StageValue::kOutput},
               {plan_.graph.EntryAtTo(edge), plan_.stage(edge.to).rank, m, StageValue::kInput},
               start, finish);
      }
      output_clock_[index] = finish;
    }
    if (gives & kInGrad) {
      for (const Edge& edge : plan_.GraphOf(m).In(action.stage)) {
        HandOn(
            {plan_.graph.EntryAtTo(edge), stage.rank, m, StageValue::kInGrad},
            {plan_.graph.EntryAtFrom(edge), plan_.stage(edge.from).rank, m, StageValue::kOutGrad},
            start, finish);
      }
      in_grad_clock_[index] = finish;
    }
  }

  void HandOn(const Key& given, const Key& taken, const Clock& start, const Clock& finish) {
    const Moment death = DeathOf(taken);
    if (given.rank != taken.rank) {
      PlaceValue(given, start, death);
      PlaceValue(taken, finish, death);
      return;
    }
    PlaceValue(taken, start, death);
    handed_on_.emplace_back(Index(given), Index(taken));
  }

  size_t Index(const Key& key, bool back = false) const {
    return Index(key.entry, key.microbatch, key.value, back);
  }

  // A value without a further user lives to the end.
  Moment DeathOf(const Key& key, bool back = false) const {
    const Moment death = deaths_[Index(key, back)];
    return death.rank < 0 ? Moment{key.rank.value, INT32_MAX} : death;
  }

  void PlaceValue(const Key& key, const Clock& birth, Moment death, bool back = false) {
    if (!places_rank_[key.rank.value]) return;
    const StageValue value = key.value;
    const int64_t bytes = AlignUp(stages_[key.entry.value].of_microbatch[value] *
                                  SlicesIn(plan_, key.microbatch, value));
    if (bytes == 0) return;
    const int rank = key.rank.value;
    for (Placed& placed : placed_) {
      Slots& slots = placed.slots[rank];
      const int64_t before = slots.bytes();
      placed.offsets[Index(key, back)] = slots.Take(bytes, birth, death);
      placed.by_value[rank][value] += slots.bytes() - before;
    }
    if (lives_.empty()) return;
    LivesOfRank& lives = lives_[rank];
    if (lives.values.size() > kMostPacked) return;
    if (lives.clocks.empty() || lives.clocks.back() != birth) lives.clocks.push_back(birth);
    lives.values.push_back({bytes, static_cast<int>(lives.clocks.size()) - 1, death});
    lives.places.push_back(Index(key, back));
  }

  // A D may begin when its F has ended.
  void PlaceOnHost(const Action& offload, Clock birth, Moment death) {
    const size_t rank = static_cast<size_t>(plan_.stage(offload.stage).rank.value);
    if (!places_rank_[rank]) return;
    birth[rank] = forward_[Index(offload.stage, offload.microbatch)];
    const size_t index = Index(offload.stage, offload.microbatch, StageValue::kHosted);
    const int64_t bytes = AlignUp(stages_[offload.stage.value].of_microbatch[StageValue::kHosted]);
    for (Placed& placed : placed_) {
      if (bytes == 0) continue;
      placed.offsets[index] = placed.slots[clocks_.size() + rank].Take(bytes, birth, death);
    }
  }

  // Takes, for every rank, the rule with the smaller block, and packs its values again.
  MemoryPlan TakeSmallest() {
    MemoryPlan memory = std::move(memory_);
    memory.microbatches = plan_.microbatches;
    memory.places = static_cast<int>(places_);
    std::vector<size_t> rule_of;
    for (int r = 0; r < plan_.ranks(); ++r) {
      size_t best = 0;
      for (size_t rule = 1; rule < placed_.size(); ++rule) {
        if (placed_[rule].slots[r].bytes() < placed_[best].slots[r].bytes()) best = rule;
      }
      rule_of.push_back(best);
      RankMemory& rank = memory.ranks[static_cast<size_t>(r)];
      rank.block = placed_[best].slots[r].bytes();
      rank.by_value = placed_[best].by_value[r];
      if (places_ > 1) rank.host = placed_[best].slots[clocks_.size() + r].bytes();
    }
    memory.offsets = placed_[0].offsets;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      for (int v = 0; v < kBuiltInValues; ++v) {
        TakeOffsets({stage, plan_.stages[s].rank, {}, static_cast<StageValue>(v)}, rule_of,
                    &memory);
      }
    }
    for (const Edge& edge : plan_.graph.edges()) {
      if (plan_.graph.is_chain()) break;
      const StageId entry = plan_.graph.EntryAtTo(edge);
      const RankId from = plan_.stage(edge.from).rank, to = plan_.stage(edge.to).rank;
      for (const StageValue value : {StageValue::kOutput, StageValue::kOutGrad}) {
        TakeOffsets({entry, from, {}, value}, rule_of, &memory);
      }
      for (const StageValue value : {StageValue::kInput, StageValue::kInGrad}) {
        TakeOffsets({entry, to, {}, value}, rule_of, &memory);
      }
    }
    for (size_t r = 0; r < lives_.size(); ++r) {
      Pack(lives_[r], places_, most_.empty() ? -1 : most_[r], &memory.ranks[r], &memory);
    }
    for (const auto& [given, taken] : handed_on_) memory.offsets[given] = memory.offsets[taken];
    return memory;
  }

  // Takes the places of the value of all microbatches by the rule of its rank.
  void TakeOffsets(Key key, const std::vector<size_t>& rule_of, MemoryPlan* memory) const {
    const size_t rule = rule_of[key.rank.value];
    if (rule == 0) return;
    for (int m = 0; m < plan_.microbatches; ++m) {
      key.microbatch = MicrobatchId(m);
      for (size_t place = Index(key); place < Index(key) + places_; ++place) {
        memory->offsets[place] = placed_[rule].offsets[place];
      }
    }
  }

  static void Pack(const LivesOfRank& lives, size_t places, int64_t most, RankMemory* rank,
                   MemoryPlan* memory) {
    const bool counted = rank->block < kMostRankBytes;  // a larger block has no number of bytes
    if (!counted || lives.values.empty() || lives.values.size() > kMostPacked) return;
    const int64_t beside = rank->all() - rank->block;
    const int64_t enough = most < 0 ? -1 : std::max<int64_t>(0, most - beside);
    Packing known{{}, rank->block, 0};
    for (const size_t place : lives.places) known.offsets.push_back(memory->offsets[place]);
    const Packing packed = PackValues(lives.values, lives.clocks, std::move(known), enough);
    rank->alive = packed.alive;
    if (packed.bytes == rank->block) return;
    rank->block = packed.bytes;
    rank->by_value = {};
    int64_t end = 0;
    for (size_t k = 0; k < lives.values.size(); ++k) {
      memory->offsets[lives.places[k]] = packed.offsets[k];
      const int64_t grows = packed.offsets[k] + lives.values[k].bytes - end;
      if (grows <= 0) continue;
      rank->by_value[static_cast<StageValue>(lives.places[k] / places % kBuiltInValues)] += grows;
      end += grows;
    }
  }

  const Plan& plan_;
  absl::Span<const StageSizes> stages_;
  absl::Span<const int64_t> most_;
  const std::vector<bool> places_rank_;
  MemoryPlan memory_;
  std::vector<Placed> placed_;      // by rule
  std::vector<LivesOfRank> lives_;  // by rank; empty: values are not packed again
  // The places of values that stay on their rank, as both ends of an edge know them.
  std::vector<std::pair<size_t, size_t>> handed_on_;
  size_t places_ = 1;                // MemoryPlan::places
  std::vector<int> forward_;         // by stage and microbatch: the group of its F; with copies
  std::vector<int> group_of_;        // by action
  std::vector<Moment> deaths_;       // by value; rank -1: no user
  std::vector<Clock> output_clock_;  // by stage and microbatch; empty: not given yet
  std::vector<Clock> in_grad_clock_;
  std::vector<Clock> clocks_;   // by rank: after its groups so far
  std::vector<uint32_t> next_;  // by rank: its next action
};

// Places the values of a plan with a window: those of a kind in a ring.
class RingPlanner {
 public:
  // `memory` has what ranks hold beside their blocks.
  RingPlanner(const Plan& plan, absl::Span<const StageSizes> stages, MemoryPlan memory)
      : plan_(plan), stages_(stages), room_(RoomOf(plan)), memory_(std::move(memory)) {
    memory_.microbatches = plan.microbatches;
    memory_.offsets.assign(plan.stages.size() * plan.microbatches * kBuiltInValues, -1);
    for (const Action& action : plan.actions) {
      const bool first = plan.graph.In(action.stage).empty();
      if (first && action.kind == ActionKind::kForward) order_.push_back(action.microbatch);
    }
  }

  MemoryPlan Run() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      const StageRoom& room = room_.stages[s];
      Place(stage, StageValue::kSavedForInput, room.activations);
      Place(stage, StageValue::kSavedForWeight, room.activations);
      Place(stage, StageValue::kStash,
            stages_[s].in_parts ? std::max(room.deferred, 1) : room.deferred);
      const StageId next = plan_.graph.Behind(stage);
      if (!next.valid()) continue;
      HandOn(stage, StageValue::kOutput, next, StageValue::kInput, room.activations);
      HandOn(next, StageValue::kInGrad, stage, StageValue::kOutGrad, room.activations);
    }
    return std::move(memory_);
  }

 private:
  int64_t& OffsetOf(StageId stage, MicrobatchId microbatch, StageValue value) {
    const size_t of = static_cast<size_t>(stage.value) * plan_.microbatches + microbatch.value;
    return memory_.offsets[of * kBuiltInValues + static_cast<size_t>(value)];
  }

  void Place(StageId stage, StageValue value, int places) {
    const int64_t bytes = AlignUp(stages_[stage.value].of_microbatch[value]);
    if (bytes == 0 || places == 0) return;
    RankMemory& rank = memory_.ranks[plan_.stage(stage).rank.value];
    for (size_t k = 0; k < order_.size(); ++k) {
      OffsetOf(stage, order_[k], value) =
          rank.block + static_cast<int64_t>(k % static_cast<size_t>(places)) * bytes;
    }
    rank.block += bytes * places;
    rank.by_value[value] += bytes * places;
  }

  // A value of `from` that is `taken` at `to`: on one rank they have one place.
  void HandOn(StageId from, StageValue given, StageId to, StageValue taken, int places) {
    Place(to, taken, places);
    if (plan_.stage(to).rank != plan_.stage(from).rank) return Place(from, given, places);
    for (const MicrobatchId m : order_) OffsetOf(from, m, given) = OffsetOf(to, m, taken);
  }

  const Plan& plan_;
  absl::Span<const StageSizes> stages_;
  const ReadyRoom room_;
  std::vector<MicrobatchId> order_;  // of the microbatches, in all stages
  MemoryPlan memory_;
};

// A stage's parameters, gathered.
struct Gathered {
  StageId stage;
  int64_t begin = 0, end = 0;
};

// The tightest free place of so many bytes, or behind all of them. `held` is sorted by offset.
int64_t FreePlace(const std::vector<Gathered>& held, int64_t bytes) {
  int64_t best = -1, tightest = INT64_MAX, end = 0;
  for (const Gathered& one : held) {
    const int64_t room = one.begin - end;
    if (room >= bytes && room < tightest) {
      best = end;
      tightest = room;
    }
    end = one.end;
  }
  return best < 0 ? end : best;
}

// Places the gathered parameters of a rank in the order of its list.
void PlaceGathers(const Plan& plan, RankId rank, absl::Span<const StageSizes> stages,
                  MemoryPlan* memory) {
  std::vector<Gathered> held;
  for (const Action& action : plan.of(rank)) {
    if (action.kind != ActionKind::kUnshard && action.kind != ActionKind::kReshard) continue;
    const auto old = std::find_if(held.begin(), held.end(),
                                  [&](const Gathered& one) { return one.stage == action.stage; });
    if (action.kind == ActionKind::kReshard) {
      if (old != held.end()) held.erase(old);
      continue;
    }
    const int64_t bytes = AlignUp(stages[action.stage.value].gathered);
    const int64_t at = old == held.end() ? FreePlace(held, bytes) : old->begin;
    memory->gathers[action.stage.value].push_back(at);
    int64_t& room = memory->ranks[rank.value].gathered;
    room = std::max(room, at + bytes);
    if (old != held.end()) continue;
    const auto behind = std::find_if(held.begin(), held.end(),
                                     [at](const Gathered& one) { return one.begin >= at; });
    held.insert(behind, {action.stage, at, at + bytes});
  }
}

// The classes of programs on a rank with stages in parts: F and R; B and I; W.
constexpr size_t kClasses = 3;
size_t ClassOf(ActionKind program) {
  if (program == ActionKind::kForward || program == ActionKind::kRecompute) return 0;
  return program == ActionKind::kWeightGradient ? 2 : 1;
}

// Adds the memory beside the block: resident bytes, gathered parameters, arenas.
void AddTheRest(const Plan& plan, absl::Span<const StageSizes> stages, MemoryPlan* memory) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    RankMemory& rank = memory->ranks[plan.stages[s].rank.value];
    rank.resident += stages[s].resident;
    rank.in_parts |= stages[s].in_parts;
  }
  memory->gathers.resize(plan.stages.size());
  for (int r = 0; r < plan.ranks(); ++r) PlaceGathers(plan, RankId(r), stages, memory);
  for (RankMemory& rank : memory->ranks) rank.arenas.assign(rank.in_parts ? kClasses : 1, 0);
  const auto take = [&](StageId stage, ActionKind program, int twins) {
    RankMemory& rank = memory->ranks[plan.stage(stage).rank.value];
    const size_t arena = rank.ArenaOf(program, twins);
    if (arena >= rank.arenas.size()) rank.arenas.resize(arena + 1, 0);
    const int64_t bytes = stages[stage.value].temporaries[static_cast<size_t>(program)];
    rank.arenas[arena] = std::max(rank.arenas[arena], AlignUp(bytes));
  };
  constexpr ActionKind kPrograms[] = {ActionKind::kForward, ActionKind::kBackward,
                                      ActionKind::kInputGradient, ActionKind::kWeightGradient,
                                      ActionKind::kRecompute};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const ActionKind program : kPrograms) {
      for (int chunk = 0; chunk < plan.chunks; ++chunk) {
        take(StageId(static_cast<int32_t>(s)), program, chunk);
      }
    }
  }
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!action.joined || !IsCompute(action.kind)) continue;
    for (const ActionKind program : kPrograms) {
      const int twins = RunsProgram(action.kind, program) ? TwinsBefore(plan, i, program) : 0;
      for (int chunk = 0; chunk < plan.chunks && twins > 0; ++chunk) {
        take(action.stage, program, twins * plan.chunks + chunk);
      }
    }
  }
}

absl::StatusOr<MemoryPlan> PlanRanks(const Plan& lowered, absl::Span<const StageSizes> stages,
                                     Sharing sharing, absl::Span<const int64_t> most,
                                     std::vector<bool> places_rank) {
  SL_CHECK(stages.size() == static_cast<size_t>(lowered.graph.entries())) << stages.size();
  MemoryPlan memory;
  memory.ranks.resize(places_rank.size());
  AddTheRest(lowered, stages, &memory);
  if (lowered.window > 0) return RingPlanner(lowered, stages, std::move(memory)).Run();
  return Planner(lowered, stages, sharing, most, std::move(places_rank), std::move(memory)).Walk();
}

}  // namespace

size_t RankMemory::ArenaOf(ActionKind program, int twins) const {
  return in_parts ? static_cast<size_t>(twins) * kClasses + ClassOf(program) : 0;
}

int64_t RankMemory::all() const {
  return std::accumulate(arenas.begin(), arenas.end(), resident + gathered + block);
}

int TwinsBefore(const Plan& plan, uint32_t action, ActionKind program) {
  uint32_t begin = action;
  while (plan.actions[begin].joined) --begin;
  const auto group = GroupAt(plan.actions, begin);
  if (group.size() == 1 || !Overlaps(plan, group)) return 0;
  const auto has_class = [program](const Action& other) {
    constexpr ActionKind kAll[] = {ActionKind::kForward, ActionKind::kInputGradient,
                                   ActionKind::kWeightGradient};
    return std::any_of(std::begin(kAll), std::end(kAll), [&](ActionKind kind) {
      return ClassOf(kind) == ClassOf(program) && RunsProgram(other.kind, kind);
    });
  };
  return static_cast<int>(
      std::count_if(group.begin(), group.begin() + (action - begin), has_class));
}

absl::StatusOr<MemoryPlan> PlanMemory(const Plan& lowered, absl::Span<const StageSizes> stages,
                                      Sharing sharing, absl::Span<const int64_t> most) {
  return PlanRanks(lowered, stages, sharing, most,
                   std::vector<bool>(static_cast<size_t>(lowered.ranks()), true));
}

absl::StatusOr<MemoryPlan> PlanMemoryOf(const Plan& lowered, absl::Span<const StageSizes> stages,
                                        absl::Span<const RankId> ranks) {
  std::vector<bool> places_rank(static_cast<size_t>(lowered.ranks()), false);
  for (const RankId rank : ranks) places_rank[rank.value] = true;
  return PlanRanks(lowered, stages, Sharing::kPacked, {}, std::move(places_rank));
}

absl::StatusOr<MemoryPlan> PlanMemoryBeyond(const Plan& lowered,
                                            absl::Span<const StageSizes> stages,
                                            absl::Span<const int64_t> most) {
  SL_ASSIGN_OR_RETURN(MemoryPlan memory, PlanMemory(lowered, stages, Sharing::kAnySize));
  std::vector<int64_t> fitting(most.begin(), most.end());
  bool is_any = false;
  for (size_t r = 0; r < fitting.size(); ++r) {
    if (fitting[r] < 0) {
      fitting[r] = INT64_MAX;
    } else if (memory.ranks[r].all() > fitting[r]) {
      fitting[r] = -1;
      is_any = true;
    }
  }
  if (!is_any) return memory;
  return PlanMemory(lowered, stages, Sharing::kPacked, fitting);
}

}  // namespace stringline
