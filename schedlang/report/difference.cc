#include "schedlang/report/difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

using ActionKey = std::tuple<ActionKind, int32_t, int32_t>;  // kind, stage, microbatch

// Nanoseconds of work by kind of group, over all ranks.
std::map<std::string, int64_t> WorkOf(const Timeline& timeline) {
  std::map<std::string, int64_t> work;
  const std::vector<Event>& events = timeline.events;
  for (size_t i = 0; i < events.size();) {
    if (!IsCompute(events[i].kind)) {
      ++i;
      continue;
    }
    std::string name = PrintedKind(timeline.rows, events[i].kind);
    int64_t start_ns = events[i].start_ns, end_ns = events[i].end_ns;
    for (++i; i < events.size() && events[i].joined; ++i) {
      absl::StrAppend(&name, "&", PrintedKind(timeline.rows, events[i].kind));
      start_ns = std::min(start_ns, events[i].start_ns);
      end_ns = std::max(end_ns, events[i].end_ns);
    }
    work[name] += end_ns - start_ns;
  }
  return work;
}

// The events of all computations, by action.
std::map<ActionKey, const Event*> ComputationsOf(const Timeline& timeline) {
  std::map<ActionKey, const Event*> found;
  for (const Event& event : timeline.events) {
    if (!IsCompute(event.kind)) continue;
    found[{event.kind, event.stage.value, event.microbatch.value}] = &event;
  }
  return found;
}

bool Alone(const Timeline& timeline, const Event* event) {
  const Event* const next = event + 1;
  const bool joined_next = next != timeline.events.data() + timeline.events.size() && next->joined;
  return !event->joined && !joined_next;
}

class Comparer {
 public:
  Comparer(const Timeline& first, const Analysis& first_analysis, const Timeline& second,
           const Analysis& second_analysis)
      : first_(first), second_(second), a_(first_analysis), b_(second_analysis) {}

  Difference Run() {
    difference_.first_ns = a_.makespan_ns;
    difference_.second_ns = b_.makespan_ns;
    AddWork();
    AddIdle();
    MatchActions();
    const auto larger = [](const auto& x, const auto& y) {
      return std::abs(x.change_ns()) > std::abs(y.change_ns());
    };
    std::stable_sort(difference_.terms.begin(), difference_.terms.end(), larger);
    std::stable_sort(difference_.actions.begin(), difference_.actions.end(),
                     [](const ActionDifference& x, const ActionDifference& y) {
                       return std::abs(x.change_ns() * x.count) > std::abs(y.change_ns() * y.count);
                     });
    return std::move(difference_);
  }

 private:
  double PerRank(int64_t ns, const Timeline& timeline) const {
    return timeline.ranks() == 0 ? 0 : static_cast<double>(ns) / timeline.ranks();
  }

  void AddWork() {
    const auto first = WorkOf(first_);
    auto second = WorkOf(second_);
    for (const auto& [name, ns] : first) {
      difference_.terms.push_back(
          {name, false, PerRank(ns, first_), PerRank(second[name], second_)});
    }
    for (const auto& [name, ns] : second) {
      if (first.count(name) == 0) {
        difference_.terms.push_back({name, false, 0, PerRank(ns, second_)});
      }
    }
  }

  void AddIdle() {
    for (int c = 0; c < kIdleCauses; ++c) {
      int64_t first_ns = 0, second_ns = 0;
      for (const auto& causes : a_.causes) first_ns += causes[c];
      for (const auto& causes : b_.causes) second_ns += causes[c];
      if (first_ns == 0 && second_ns == 0) continue;
      difference_.terms.push_back({absl::StrCat("idle: ", NameOf(static_cast<IdleCause>(c))), true,
                                   PerRank(first_ns, first_), PerRank(second_ns, second_)});
    }
  }

  void MatchActions() {
    const auto first = ComputationsOf(first_);
    const auto second = ComputationsOf(second_);
    std::map<std::pair<ActionKind, int32_t>, ActionDifference> sums;
    for (const auto& [key, event] : first) {
      const auto found = second.find(key);
      if (found == second.end()) {
        ++difference_.only_first;
        continue;
      }
      ++difference_.matched;
      if (!Alone(first_, event) || !Alone(second_, found->second)) continue;
      ActionDifference& sum = sums[{event->kind, event->stage.value}];
      sum.kind = event->kind;
      sum.stage = event->stage;
      ++sum.count;
      sum.first_ns += static_cast<double>(event->end_ns - event->start_ns);
      sum.second_ns += static_cast<double>(found->second->end_ns - found->second->start_ns);
    }
    difference_.only_second = static_cast<int64_t>(second.size()) - difference_.matched;
    for (auto& [key, sum] : sums) {
      sum.first_ns /= sum.count;
      sum.second_ns /= sum.count;
      if (sum.first_ns != sum.second_ns) difference_.actions.push_back(sum);
    }
  }

  const Timeline& first_;
  const Timeline& second_;
  const Analysis& a_;
  const Analysis& b_;
  Difference difference_;
};

}  // namespace

Difference DifferenceOf(const Timeline& first, const Analysis& first_analysis,
                        const Timeline& second, const Analysis& second_analysis) {
  return Comparer(first, first_analysis, second, second_analysis).Run();
}

}  // namespace stringline
