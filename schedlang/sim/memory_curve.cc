#include "schedlang/sim/memory_curve.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedlang/effects.h"

namespace stringline {
namespace {

// So much more, or less, of a class from a moment on.
struct Change {
  int64_t time_ns = 0;
  int64_t amount = 0;
  MemoryClass memory_class = MemoryClass::kWeights;
};

class RankMemoryWalk {
 public:
  RankMemoryWalk(const Plan& plan, const Timeline& timeline, const std::vector<StageMemory>& sizes,
                 RankId rank)
      : plan_(plan), timeline_(timeline), sizes_(sizes), rank_(rank) {}

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
    if (amount != 0) changes_.push_back({time_ns, amount, memory_class});
  }
  void Hold(int64_t from_ns, int64_t to_ns, MemoryClass memory_class, int64_t amount) {
    Add(from_ns, memory_class, amount);
    Add(std::max(from_ns, to_ns), memory_class, -amount);
  }

  void CountActivations() {
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      const Event& event = timeline_.events[i];
      const int change = ActivationChange(event.kind);
      Add(change > 0 ? event.start_ns : event.end_ns, MemoryClass::kSavedForInput, change);
    }
  }

  void CountBytes() {
    AddConstants();
    const int64_t never_ns = LatestEnd();
    // When a stage's microbatch took what it holds; by stage and microbatch.
    std::map<std::pair<int32_t, int32_t>, int64_t> forward, input;
    std::map<std::tuple<int32_t, int32_t, bool>, int64_t> received, made;
    std::map<int32_t, int64_t> gathered;
    for (uint32_t i = plan_.first[rank_.value]; i < plan_.first[rank_.value + 1]; ++i) {
      const Event& e = timeline_.events[i];
      const StageMemory& size = sizes_[e.stage.value];
      const std::pair key(e.stage.value, e.microbatch.value);
      const auto message = [&](bool gradient) {
        return std::tuple(e.stage.value, e.microbatch.value, gradient);
      };
      switch (e.kind) {
        case ActionKind::kForward:
          forward[key] = e.start_ns;
          EndMessage(message(false), e.end_ns, InputBytes(e.stage), &received);
          made[message(false)] = e.start_ns;
          break;
        case ActionKind::kBackward:
        case ActionKind::kInputGradient: {
          const auto from = forward.find(key);
          if (from == forward.end()) break;
          Hold(from->second, e.end_ns, MemoryClass::kSavedForInput, size.saved_for_i);
          EndMessage(message(true), e.end_ns, size.message, &received);
          made[message(true)] = e.start_ns;
          if (e.kind == ActionKind::kBackward) {
            Hold(from->second, e.end_ns, MemoryClass::kSavedForWeight, size.saved_for_w);
          } else {
            input[key] = e.start_ns;
          }
          break;
        }
        case ActionKind::kWeightGradient:
          if (forward.count(key) == 0 || input.count(key) == 0) break;
          Hold(forward[key], e.end_ns, MemoryClass::kSavedForWeight, size.saved_for_w);
          Hold(input[key], e.end_ns, MemoryClass::kStash, size.stash);
          break;
        case ActionKind::kRecvForward:
          received[message(false)] = e.start_ns;
          break;
        case ActionKind::kRecvBackward:
          received[message(true)] = e.start_ns;
          break;
        case ActionKind::kSendForward:
          EndMessage(message(false), e.end_ns, size.message, &made);
          break;
        case ActionKind::kSendBackward:
          EndMessage(message(true), e.end_ns, InputBytes(e.stage), &made);
          break;
        case ActionKind::kUnshard:
          gathered[e.stage.value] = e.start_ns;
          break;
        case ActionKind::kReshard:
          if (gathered.count(e.stage.value) == 0) break;
          Hold(gathered[e.stage.value], e.end_ns, MemoryClass::kUnsharded, size.unsharded);
          gathered.erase(e.stage.value);
          break;
        default:
          break;
      }
    }
    for (const auto& [stage, from_ns] : gathered) {
      Hold(from_ns, never_ns, MemoryClass::kUnsharded, sizes_[stage].unsharded);
    }
  }

  void AddConstants() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].rank != rank_) continue;
      Add(0, MemoryClass::kWeights, sizes_[s].weights);
      Add(0, MemoryClass::kGradients, sizes_[s].gradients);
      Add(0, MemoryClass::kOptimizer, sizes_[s].optimizer);
    }
  }

  int64_t LatestEnd() const {
    int64_t end_ns = 0;
    for (const Event& event : timeline_.events) end_ns = std::max(end_ns, event.end_ns);
    return end_ns;
  }

  // What the stage before it sends.
  int64_t InputBytes(StageId stage) const {
    const StageId previous = plan_.stage(stage).previous;
    return previous.valid() ? sizes_[previous.value].message : 0;
  }

  template <typename Key>
  void EndMessage(const Key& key, int64_t end_ns, int64_t bytes, std::map<Key, int64_t>* from) {
    const auto found = from->find(key);
    if (found == from->end()) return;
    Hold(found->second, end_ns, MemoryClass::kMessages, bytes);
    from->erase(found);
  }

  // What is given back at a moment is free for what is taken at the same one.
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
  std::vector<Change> changes_;
};

}  // namespace

const char* NameOf(MemoryClass memory_class) {
  static constexpr const char* kNames[kMemoryClasses] = {"weights",   "gradients",   "optimizer",
                                                         "unsharded", "saved for I", "saved for W",
                                                         "stash",     "messages"};
  return kNames[static_cast<int>(memory_class)];
}

MemoryCurves MemoryOver(const Plan& lowered, const Timeline& timeline,
                        const std::vector<StageMemory>& sizes) {
  MemoryCurves curves;
  curves.in_bytes = !sizes.empty();
  for (int r = 0; r < lowered.ranks(); ++r) {
    curves.ranks.push_back(RankMemoryWalk(lowered, timeline, sizes, RankId(r)).Run());
  }
  return curves;
}

}  // namespace stringline
