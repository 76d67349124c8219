#include "schedlang/tune/held_peaks.h"

#include <algorithm>
#include <cstddef>

#include "schedlang/plan/effects.h"
#include "schedlang/report/memory_curve.h"

namespace stringline::tune {

std::vector<RankSizes> RankSizesOf(const StagedCosts& staged) {
  const Plan& plan = staged.stages;
  std::vector<RankSizes> ranks;
  if (staged.costs.memory.empty()) return ranks;
  ranks.resize(static_cast<size_t>(plan.ranks()));
  std::vector<bool> seen(ranks.size(), false);
  const std::vector<StageSizes> sizes = SizesOfCosts(plan, staged.costs.memory);
  for (size_t s = 0; s < sizes.size(); ++s) {
    const auto r = static_cast<size_t>(plan.stages[s].rank.value);
    // A slice keeps a part of a microbatch's bytes, which is not counted.
    const int64_t whole = plan.slices > 1 ? 0 : 1;
    const int64_t for_input = whole * sizes[s].of_microbatch[StageValue::kSavedForInput];
    const int64_t for_weight = whole * sizes[s].of_microbatch[StageValue::kSavedForWeight];
    ranks[r].resident += sizes[s].resident;
    ranks[r].saved_for_input = seen[r] ? std::min(ranks[r].saved_for_input, for_input) : for_input;
    ranks[r].saved_for_weight =
        seen[r] ? std::min(ranks[r].saved_for_weight, for_weight) : for_weight;
    seen[r] = true;
  }
  return ranks;
}

HeldPeaks::HeldPeaks(const Plan& lowered) {
  of_ranks_.resize(static_cast<size_t>(lowered.ranks()));
  for (int r = 0; r < lowered.ranks(); ++r) {
    std::vector<Held>& peaks = of_ranks_[static_cast<size_t>(r)];
    Held held;
    const auto add = [&](Values values, int64_t count) {
      if (values & SetOf(StageValue::kSavedForInput)) held.for_input += count;
      if (values & SetOf(StageValue::kSavedForWeight)) held.for_weight += count;
    };
    const auto keep = [&] {
      for (const Held& peak : peaks) {
        if (peak.for_input >= held.for_input && peak.for_weight >= held.for_weight) return;
      }
      std::erase_if(peaks, [&](const Held& peak) {
        return peak.for_input <= held.for_input && peak.for_weight <= held.for_weight;
      });
      peaks.push_back(held);
    };
    // The parts of a group release what they do at its end.
    const auto actions = lowered.of(RankId(r));
    for (size_t i = 0; i < actions.size(); ++i) {
      if (IsCollective(actions[i].kind)) continue;
      const Effects& effects = EffectsOf(lowered, actions[i]);
      add(effects.gives, 1);
      keep();
      add(effects.releases, -1);
    }
  }
}

int64_t HeldPeaks::LeastBytes(const std::vector<RankSizes>& sizes) const {
  int64_t most = 0;
  for (size_t r = 0; r < sizes.size() && r < of_ranks_.size(); ++r) {
    int64_t held = 0;
    for (const Held& peak : of_ranks_[r]) {
      held = std::max(held, peak.for_input * sizes[r].saved_for_input +
                                peak.for_weight * sizes[r].saved_for_weight);
    }
    most = std::max(most, sizes[r].resident + held);
  }
  return most;
}

}  // namespace stringline::tune
