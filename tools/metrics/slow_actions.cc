#include "tools/metrics/slow_actions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/costs/median.h"

namespace stringline {
std::map<SlowActions::Key, int64_t> SlowActions::MediansOf(int coordinate,
                                                           const Timeline& timeline) {
  std::map<Key, std::vector<int64_t>> times;
  const std::vector<Event>& events = timeline.events;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (!IsCompute(event.kind) || event.joined || event.kind == ActionKind::kUpdate) continue;
    const bool in_group = i + 1 < events.size() && events[i + 1].joined;
    const Key key = {coordinate, event.stage.value, static_cast<int>(event.kind),
                     in_group ? static_cast<int>(events[i + 1].kind) : -1};
    times[key].push_back(event.worked_ns());
  }
  std::map<Key, int64_t> medians;
  for (auto& [key, of] : times) medians[key] = MedianOf(std::move(of));
  return medians;
}

void SlowActions::Add(int64_t step, const Plan& plan, absl::Span<const Timeline> measured) {
  found_.clear();
  std::map<Key, int64_t> all;
  for (size_t c = 0; c < measured.size(); ++c) {
    all.merge(MediansOf(static_cast<int>(c), measured[c]));
  }
  const bool among_copies = measured.size() >= 3;
  std::map<Key, std::vector<int64_t>> of_copies;  // by key without its coordinate
  for (const auto& [key, ns] : all) {
    Key shared = key;
    shared.coordinate = 0;
    of_copies[shared].push_back(ns);
  }
  for (const auto& [key, ns] : all) {
    State& state = states_[key];
    state.rank =
        key.coordinate * plan.ranks() + plan.stages[static_cast<size_t>(key.stage)].rank.value;
    if (among_copies) {
      Key shared = key;
      shared.coordinate = 0;
      state.usual = MedianOf(of_copies[shared]);
    } else if (static_cast<int>(state.first.size()) < kFirst) {
      state.first.push_back(ns);
      state.usual = MedianOf(state.first);
      continue;
    }
    state.ratio = state.usual > 0 ? static_cast<double>(ns) / static_cast<double>(state.usual) : 1;
    Judge(step, key, &state);
  }
}

void SlowActions::Judge(int64_t step, const Key& key, State* state) {
  state->slow_steps = state->ratio > kSlow ? state->slow_steps + 1 : 0;
  state->fast_steps = state->ratio < kFast ? state->fast_steps + 1 : 0;
  if (state->slow_steps == 1 && !state->is_slow) state->began = step;
  if (state->fast_steps >= kSteps) state->is_slow = false;
  if (state->is_slow || state->slow_steps < kSteps) return;
  state->is_slow = true;
  found_.push_back(ActionOf(key, *state));
}

SlowAction SlowActions::ActionOf(const Key& key, const State& state) {
  std::string action = PrintedKind(static_cast<ActionKind>(key.kind));
  if (key.beside >= 0)
    absl::StrAppend(&action, "&", PrintedKind(static_cast<ActionKind>(key.beside)));
  return {state.rank, key.stage, std::move(action), state.ratio, state.began};
}

std::vector<SlowAction> SlowActions::now() const {
  std::vector<SlowAction> slow;
  for (const auto& [key, state] : states_) {
    if (state.is_slow) slow.push_back(ActionOf(key, state));
  }
  std::stable_sort(slow.begin(), slow.end(),
                   [](const SlowAction& a, const SlowAction& b) { return a.ratio > b.ratio; });
  return slow;
}

}  // namespace stringline
