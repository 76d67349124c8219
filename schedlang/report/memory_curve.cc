// Every class of memory is a list of changes, more or less from a moment on. Sorted and added up
// they are the curve.
#include "schedlang/report/memory_curve.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedlang/check/live_memory.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// So much more, or less, of a class from a moment on.
struct Change {
  int64_t time_ns = 0;
  int64_t amount = 0;
  MemoryClass memory_class = MemoryClass::kWeights;
};

constexpr Values kAll = ~Values{0};

int64_t RemadeBy(ActionKind kind, const StageMemory& stage) {
  if (kind == ActionKind::kInputGradient) return stage.remade_for_input;
  const int64_t both = stage.remade_for_input + stage.remade_for_weight;
  return kind == ActionKind::kBackward ? both : 0;
}

// The bytes of a value by its entry (StageGraph::entries). A message is as large as the sender of
// the activation says, or its edge; at the ends of the model no message moves.
int64_t BytesOf(const Plan& plan, const std::vector<StageMemory>& sizes, StageId entry,
                StageValue value) {
  const StageGraph& graph = plan.graph;
  const bool of_edge = entry.value >= graph.stages();
  if (!Moves(value)) return of_edge ? 0 : sizes[entry.value][ClassOf(value)];
  if (!graph.is_chain()) return of_edge ? sizes[entry.value][MemoryClass::kMessages] : 0;
  const bool leads_here = value == StageValue::kInput || value == StageValue::kInGrad;
  const StageId sender = leads_here ? graph.Before(entry) : entry;
  const bool moves = sender.valid() && graph.Behind(sender).valid();
  return moves ? sizes[sender.value][MemoryClass::kMessages] : 0;
}

class RankMemoryWalk {
 public:
  RankMemoryWalk(const Plan& plan, const Timeline& timeline, const std::vector<StageMemory>& sizes,
                 RankId rank, bool of_host)
      : plan_(plan), timeline_(timeline), sizes_(sizes), rank_(rank), of_host_(of_host) {}

  MemoryCurve Run() {
    if (sizes_.empty()) {
      CountActivations();
    } else {
      CountBytes();
    }
    return Curve();
  }

 private:
  void Add(int64_t time_ns, MemoryClass memory_class, int64_t amount) {
    if (amount != 0 && IsOnHost(memory_class) == of_host_)
      changes_.push_back({time_ns, amount, memory_class});
  }
  void Hold(int64_t from_ns, int64_t to_ns, MemoryClass memory_class, int64_t amount) {
    Add(from_ns, memory_class, amount);
    Add(std::max(from_ns, to_ns), memory_class, -amount);
  }

  void CountActivations() {
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      const Event& event = timeline_.events[i];
      const int change = ActivationChange(plan_, event.kind);
      Add(change > 0 ? event.start_ns : event.end_ns, MemoryClass::kSavedForInput, change);
    }
  }

  void CountBytes() {
    AddConstants();
    std::map<int32_t, int64_t> gathered, unreduced;
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      const Event& e = timeline_.events[i];
      if (e.kind == ActionKind::kUnshard) gathered[e.stage.value] = e.start_ns;
      if (e.kind == ActionKind::kReshard && gathered.count(e.stage.value) > 0) {
        Hold(gathered[e.stage.value], e.end_ns, MemoryClass::kUnsharded,
             sizes_[e.stage.value][MemoryClass::kUnsharded]);
        gathered.erase(e.stage.value);
      }
      if (EffectsOf(e.kind).gives & kWeightGrad) unreduced.emplace(e.stage.value, e.start_ns);
      if (e.kind == ActionKind::kReduceGrad) {
        HoldUnreduced(e.stage.value, e.end_ns, &unreduced);
      }
      CountValues(plan_.actions[i], e, kAll & ~kAway);
      CountRemade(e);
    }
    if (!plan_.rows.values.empty()) CountLent();
    const int64_t never_ns = LatestEnd();
    while (!unreduced.empty()) HoldUnreduced(unreduced.begin()->first, never_ns, &unreduced);
    for (const auto& [stage, from_ns] : gathered) {
      Hold(from_ns, never_ns, MemoryClass::kUnsharded, sizes_[stage][MemoryClass::kUnsharded]);
    }
  }

  // `from_ns`, by stage: since when its gradients are whole.
  void HoldUnreduced(int32_t stage, int64_t to_ns, std::map<int32_t, int64_t>* from_ns) {
    const auto from = from_ns->find(stage);
    if (from == from_ns->end()) return;
    Hold(from->second, to_ns, MemoryClass::kGradients, sizes_[stage].unreduced);
    from_ns->erase(from);
  }

  // From the start of the producer of a value to the end of its last reader; a value held by both
  // stages on one rank is not counted, since nothing moves.
  void CountValues(const Action& action, const Event& e, Values counted) {
    const auto [needs, all_given, all_released] = EffectsOf(plan_, action);
    const Values gives = all_given & counted, releases = all_released & counted;
    if ((gives | releases) == 0) return;
    for (int v = 0; v < kStageValues; ++v) {
      const auto value = static_cast<StageValue>(v);
      if (((gives | releases) & SetOf(value)) == 0) continue;
      ForEachEntry(plan_, action, value, [&](StageId entry) {
        if (gives & SetOf(value)) {
          given_[{entry.value, GivenTo(plan_, e.microbatch, value).value, value}] = e.start_ns;
        }
        if (releases & SetOf(value)) Release(entry, e, value);
      });
    }
  }

  void Release(StageId entry, const Event& e, StageValue value) {
    const auto from = given_.find({entry.value, e.microbatch.value, value});
    if (from == given_.end()) return;
    Hold(from->second, e.end_ns, ClassOf(value),
         BytesOf(plan_, sizes_, entry, value) * SlicesIn(plan_, e.microbatch, value));
    given_.erase(from);
  }

  // Counts the own values that other ranks keep on this one.
  void CountLent() {
    for (const OwnValue& value : plan_.rows.values) {
      for (uint32_t i = 0; i < plan_.actions.size() && IsAway(value.value); ++i) {
        const Action& action = plan_.actions[i];
        if (!IsOwn(action.kind) || value.ranks[action.stage.value] != rank_.value) continue;
        CountValues(action, timeline_.events[i], SetOf(value.value));
      }
    }
  }

  // Counts the bytes that a recomputing stage makes again, for as long as the action runs.
  void CountRemade(const Event& e) {
    if (!IsCompute(e.kind)) return;
    const StageMemory& stage = sizes_[e.stage.value];
    Hold(e.start_ns, e.end_ns, MemoryClass::kSavedForInput, RemadeBy(e.kind, stage));
  }

  void AddConstants() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].rank != rank_) continue;
      for (const MemoryClass always :
           {MemoryClass::kWeights, MemoryClass::kGradients, MemoryClass::kOptimizer}) {
        Add(0, always, sizes_[s][always]);
      }
    }
  }

  int64_t LatestEnd() const {
    int64_t end_ns = 0;
    for (const Event& event : timeline_.events) end_ns = std::max(end_ns, event.end_ns);
    return end_ns;
  }

  // Bytes released at a moment are free for bytes taken at the same moment.
  MemoryCurve Curve() {
    std::stable_sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return std::pair(a.time_ns, a.amount > 0) < std::pair(b.time_ns, b.amount > 0);
    });
    MemoryCurve curve;
    std::array<int64_t, kMemoryClasses> held = {};
    int64_t amount = 0;
    for (size_t k = 0; k < changes_.size();) {
      const int64_t time_ns = changes_[k].time_ns;
      for (; k < changes_.size() && changes_[k].time_ns == time_ns; ++k) {
        amount += changes_[k].amount;
        held[static_cast<int>(changes_[k].memory_class)] += changes_[k].amount;
        if (amount <= curve.peak) continue;
        curve.peak = amount;
        curve.peak_ns = time_ns;
        if (!sizes_.empty()) curve.at_peak = held;
      }
      curve.points.push_back({time_ns, amount});
    }
    return curve;
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const std::vector<StageMemory>& sizes_;
  const RankId rank_;
  const bool of_host_;  // counts the host's memory, and not the device's
  std::vector<Change> changes_;
  // The time when a value of an entry (StageGraph::entries) and microbatch was given.
  std::map<std::tuple<int32_t, int32_t, StageValue>, int64_t> given_;
};

}  // namespace

std::vector<StageSizes> SizesOfCosts(const Plan& plan, const std::vector<StageMemory>& memory) {
  std::vector<StageSizes> sizes(memory.size());
  for (size_t s = 0; s < memory.size(); ++s) {
    for (const MemoryClass always :
         {MemoryClass::kWeights, MemoryClass::kGradients, MemoryClass::kOptimizer}) {
      sizes[s].resident += memory[s][always];
    }
    sizes[s].resident += memory[s].unreduced;
    sizes[s].gathered = memory[s][MemoryClass::kUnsharded];
    for (int v = 0; v < kStageValues; ++v) {
      const auto value = static_cast<StageValue>(v);
      sizes[s].of_microbatch[value] =
          BytesOf(plan, memory, StageId(static_cast<int32_t>(s)), value);
    }
  }
  for (const Action& action : plan.actions) {
    if (!ComputesMicrobatch(action.kind) || sizes.empty()) continue;
    sizes[action.stage.value].temporaries[static_cast<size_t>(action.kind)] =
        RemadeBy(action.kind, memory[action.stage.value]);
  }
  return sizes;
}

std::vector<OverfullRank> FindOverfull(const MemoryCurves& curves, int64_t capacity) {
  std::vector<OverfullRank> overfull;
  for (size_t r = 0; r < curves.ranks.size() && curves.in_bytes && capacity > 0; ++r) {
    const MemoryCurve& curve = curves.ranks[r];
    if (curve.peak <= capacity) continue;
    const auto first = std::find_if(curve.points.begin(), curve.points.end(),
                                    [&](const MemoryPoint& p) { return p.amount > capacity; });
    const int64_t first_ns =
        first == curve.points.end() ? curve.peak_ns : std::min(first->time_ns, curve.peak_ns);
    overfull.push_back({static_cast<int>(r), first_ns, curve.peak, curve.peak_ns});
  }
  return overfull;
}

MemoryCurves MemoryOver(const Plan& lowered, const Timeline& timeline,
                        const std::vector<StageMemory>& sizes) {
  MemoryCurves curves;
  curves.in_bytes = !sizes.empty();
  curves.rows = lowered.rows;
  for (int r = 0; r < lowered.ranks(); ++r) {
    curves.ranks.push_back(RankMemoryWalk(lowered, timeline, sizes, RankId(r), false).Run());
  }
  const bool copies = UsesHosts(lowered);
  for (int r = 0; r < lowered.ranks() && copies && curves.in_bytes; ++r) {
    curves.hosts.push_back(RankMemoryWalk(lowered, timeline, sizes, RankId(r), true).Run());
  }
  return curves;
}

}  // namespace stringline
