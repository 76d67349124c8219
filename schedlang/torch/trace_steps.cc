#include "schedlang/torch/trace_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

// The profiler's steps; nothing if it counted none, or a step holds an action twice.
std::vector<TraceStep> CountedSteps(const RankTrace& trace) {
  std::vector<TraceStep> steps;
  size_t at = 0;
  for (const NamedSpan& counted : trace.steps) {
    TraceStep step{.from_ns = counted.start_ns, .to_ns = counted.end_ns};
    if (!absl::SimpleAtoi(counted.name, &step.number)) return {};
    while (at < trace.actions.size() && trace.actions[at].start_ns < step.from_ns) ++at;
    step.first = at;
    std::set<std::string> performed;
    for (; at < trace.actions.size() && trace.actions[at].start_ns < step.to_ns; ++at) {
      if (!performed.insert(trace.actions[at].name).second) return {};
    }
    step.end = at;
    if (step.first < step.end) steps.push_back(step);
  }
  return steps;
}

std::vector<TraceStep> RepeatedSteps(const RankTrace& trace) {
  std::vector<TraceStep> steps;
  std::set<std::string> performed;
  for (size_t i = 0; i < trace.actions.size(); ++i) {
    const bool is_again = !performed.insert(trace.actions[i].name).second;
    if (is_again) {
      performed = {trace.actions[i].name};
      steps.back().to_ns = trace.actions[i].start_ns;
    }
    if (is_again || i == 0) {
      steps.push_back({static_cast<int>(steps.size()), i, i,
                       i == 0 ? -kEver : trace.actions[i].start_ns, kEver});
    }
    steps.back().end = i + 1;
  }
  return steps;
}

std::string Listed(const std::set<int>& numbers) {
  if (numbers.empty()) return "none";
  const bool is_row = *numbers.rbegin() - *numbers.begin() + 1 == static_cast<int>(numbers.size());
  if (is_row && numbers.size() > 2) {
    return absl::StrCat(*numbers.begin(), "..", *numbers.rbegin());
  }
  return absl::StrJoin(numbers, ", ");
}

}  // namespace

std::vector<TraceStep> StepsOf(const RankTrace& trace) {
  std::vector<TraceStep> steps = CountedSteps(trace);
  return steps.empty() ? RepeatedSteps(trace) : steps;
}

absl::StatusOr<std::vector<TraceStep>> ChooseStep(const std::vector<RankTrace>& traces,
                                                  std::optional<int> asked,
                                                  std::vector<int>* whole) {
  std::vector<std::map<int, TraceStep>> steps;  // by rank, its whole steps
  for (const RankTrace& trace : traces) {
    size_t most = 0;
    const std::vector<TraceStep> all = StepsOf(trace);
    for (const TraceStep& step : all) most = std::max(most, step.end - step.first);
    steps.emplace_back();
    for (const TraceStep& step : all) {
      if (step.end - step.first == most) steps.back().emplace(step.number, step);
    }
  }
  const auto numbers_of = [&](size_t r) {
    std::set<int> numbers;
    for (const auto& [number, step] : steps[r]) numbers.insert(number);
    return numbers;
  };
  std::set<int> shared = numbers_of(0);
  for (size_t r = 0; r < traces.size(); ++r) {
    const std::set<int> here = numbers_of(r);
    if (asked && here.count(*asked) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          traces[r].file, ": step ", *asked, " is not whole there; whole are: ", Listed(here)));
    }
    for (auto step = shared.begin(); step != shared.end();) {
      step = here.count(*step) > 0 ? std::next(step) : shared.erase(step);
    }
    if (!shared.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(traces[r].file,
                     ": no step is whole there and in the traces of all ranks before; whole "
                     "are there: ",
                     Listed(here), "; in ", traces[0].file, ": ", Listed(numbers_of(0)),
                     "; profile the same steps on every rank"));
  }
  whole->assign(shared.begin(), shared.end());
  std::vector<TraceStep> chosen;
  for (const auto& of_rank : steps) chosen.push_back(of_rank.at(asked.value_or(whole->back())));
  return chosen;
}

}  // namespace stringline
