// A size is a search problem of its own, of the same question. A text is elaborated for each, and
// its orders are valued as those of any search: so gaps are to the bound of any order there.
#include "schedlang/ask/sized_problems.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/check_sweep.h"
#include "schedlang/ask/placed_work.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/sweep.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/search/problem_of.h"

namespace stringline {
namespace {

// The memory above the capacities, as shares of them, summed over the ranks; and the most that a
// rank holds, as a share of all that it could. Along the words, as a search counts.
void AddMemory(const search::Problem& problem, const search::Words& words, SizesScore* score) {
  double most = 0;
  for (size_t r = 0; r < words.size(); ++r) {
    int64_t held = 0, peak = 0, all = 1;
    for (const search::Group group : words[r]) {
      const auto [during, after] = search::MemoryOf(problem, group);
      if (search::KindOf(group.first) == ActionKind::kForward) {  // of a pair the first
        all += problem.stages[static_cast<size_t>(search::StageOf(group.first))]
                   .after[search::kForwardAt];
      }
      peak = std::max({peak, held + during, held + after});
      held += after;
    }
    most = std::max(most, static_cast<double>(peak) / static_cast<double>(all));
    const int64_t capacity = problem.capacity[r];
    if (peak <= capacity) continue;
    score->beyond +=
        static_cast<double>(peak - capacity) / static_cast<double>(std::max<int64_t>(1, capacity));
  }
  score->held += most;
}

// Refuses what is said of one number of stages, or is found for one.
absl::Status CheckForSizes(const AnySizeQuestion& question, const StepCosts& costs) {
  const SearchQuestion& search = question.search;
  for (const auto& [key, values] : costs.spec.values) {
    if (values.size() < 2) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "`ranges` and costs of each stage: ", key, " has ", values.size(),
        " values, and sizes have different numbers of stages; give one value for all stages"));
  }
  if (!costs.spec.microbatches.empty()) {
    return absl::InvalidArgumentError(
        "`ranges` and unequal microbatches (microbatch): sizes have different numbers of them");
  }
  if (!costs.spec.links.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`ranges` and ", costs.spec.links[0].place,
                     ": sizes may have different links; give one p2p and bandwidth for all"));
  }
  if (search.memory.is_of_each) {
    return absl::InvalidArgumentError(
        "`ranges` and `memory` of each rank: sizes have different numbers of ranks; give one limit "
        "for all ranks");
  }
  const char* const other = !search.jitter.empty() || search.seeds > 0 ? "jitter"
                            : !search.expect.empty()                   ? "expect"
                            : !search.costs.slow.empty() || !search.costs.slow_links.empty()
                                ? "slow"
                                : nullptr;
  if (other != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("`ranges` and `", other,
                     "`: texts for several sizes are compared by the times that costs "
                     "give; search for one size"));
  }
  const char* const single = search.any_split                                  ? "split=any"
                             : search.recompute != SearchRecompute::kAsCosts   ? "recompute"
                             : search.offload != SearchOffload::kNone          ? "offload"
                             : search.host.is_given()                          ? "host_memory"
                             : search.begin && !search.begin->schedule.empty() ? "schedule"
                             : search.place == "any" || search.place[0] == '[' ? "place"
                                                                               : nullptr;
  if (single == nullptr) return absl::OkStatus();
  const std::string said = search.place.empty() || std::string(single) != "place"
                               ? single
                               : absl::StrCat("place=", search.place);
  return absl::InvalidArgumentError(absl::StrCat(
      "`ranges` and `", said, "`: what a text leaves open are values of its parameters",
      std::string(single) == "schedule" ? "; of a file with several schedules the last one is taken"
                                        : "; search for one size, or give it in the text"));
}

absl::StatusOr<SizedProblem> SizedProblemOf(const AnySizeQuestion& question, const StepCosts& costs,
                                            std::vector<Parameter> parameters, const Stop* stop) {
  SearchQuestion sized = question.search;
  sized.parameters.insert(sized.parameters.end(), parameters.begin(), parameters.end());
  SL_ASSIGN_OR_RETURN(sized.activations, MostActivations(question.activations, sized.parameters));
  SL_ASSIGN_OR_RETURN(SearchRequest request, SearchRequestOf(sized, stop));
  request.limits.objective = sized.minimize;  // without the waits that the goal may add
  SizedProblem size{.parameters = std::move(sized.parameters), .stages = request.stages[0]};
  const std::string why = search::WhyTooLarge(size.stages);
  if (!why.empty()) return absl::InvalidArgumentError(why);
  SL_ASSIGN_OR_RETURN(size.placed, PlacedProblemOf(request, costs, size.stages, {}));
  size.without_limit = size.placed.problem;
  for (int64_t& capacity : size.without_limit.capacity) capacity = search::kNoLimit;
  for (const KnownOrders& known : LibraryOrdersOn(size.stages, stop)) {
    if (!search::IsComplete(size.placed.problem, known.words)) continue;
    const int64_t value = search::ValueOf(size.placed.problem, known.words);
    if (size.library.schedule.empty() || value < size.library.value) {
      size.library = {known.schedule, value};
    }
  }
  return size;
}

// The ranges with every value of the first one between its smallest and its largest.
std::vector<SweepRange> WholeRanges(const AnySizeQuestion& question,
                                    const std::vector<SizedProblem>& sizes) {
  std::vector<SweepRange> ranges = question.ranges;
  int64_t least = search::kNoLimit, most = 0;
  for (const SizedProblem& size : sizes) {
    for (const Parameter& parameter : size.parameters) {
      if (parameter.name != ranges[0].name) continue;
      least = std::min(least, parameter.value);
      most = std::max(most, parameter.value);
    }
  }
  ranges[0].items = {{absl::StrCat(least), absl::StrCat(most), "1"}};
  ranges[0].text = least == most ? absl::StrCat(least) : absl::StrCat(least, "..", most);
  return ranges;
}

bool IsOfSize(const std::vector<Parameter>& parameters, const SizedProblem& size) {
  return std::all_of(parameters.begin(), parameters.end(), [&size](const Parameter& one) {
    return std::any_of(size.parameters.begin(), size.parameters.end(), [&one](const auto& other) {
      return other.name == one.name && other.value == one.value;
    });
  });
}

// The checks of a text's plans: without limits of memory, and within those of each size.
class RangeCheck {
 public:
  RangeCheck(const AnySizeQuestion& question, const StepCosts& costs, const Sweep& sweep,
             const Stop* stop)
      : question_(question), costs_(costs), sweep_(sweep), stop_(stop) {}

  absl::StatusOr<CheckedSweep> Run(bool limited) const {
    return CheckAll(
        sweep_,
        [this, limited](const Plan& plan, Diagnostics* findings) {
          return IsRight(plan, limited, findings);
        },
        /*threads=*/0, [this] { return !IsWished(stop_); });
  }

  // "P=5 M=15: rank 0 would hold 6 …", the first of these plans that is not right; "": all are.
  std::string FirstWrong(const CheckedSweep& checked, bool limited) const {
    for (size_t i = 0; i < checked.verdicts.size(); ++i) {
      if (checked.verdicts[i] == SweepVerdict::kRight) continue;
      Diagnostics findings;
      const std::optional<Plan> plan = PlanAt(sweep_, i, &findings);
      if (plan) IsRight(*plan, limited, &findings);
      return absl::StrCat(sweep_.NameOf(i), ": ",
                          findings.empty() ? "" : findings.findings().front().text);
    }
    return "";
  }

 private:
  bool IsRight(const Plan& plan, bool limited, Diagnostics* findings) const {
    CheckOptions options;
    const absl::StatusOr<CostModel> model = ResolveCosts(costs_, plan);
    if (!model.ok()) return false;
    if (limited) {
      const absl::StatusOr<int> activations =
          MostActivations(question_.activations, plan.parameters);
      const absl::StatusOr<MemoryLimit> memory =
          MemoryLimitOf(question_.search.memory, &*model, plan.ranks());
      if (!activations.ok() || !memory.ok()) return false;
      options.activations = *activations;
      if (options.activations < 0 && memory->is_given() && !model->memory.empty()) {
        options.memory = *memory;
        options.sizes = SizesOfCosts(plan, model->memory);
      }
    }
    return CheckedPlan(plan, options, findings, model->collectives).has_value();
  }

  const AnySizeQuestion& question_;
  const StepCosts& costs_;
  const Sweep& sweep_;
  const Stop* const stop_;
};

}  // namespace

std::string NameOfSize(const std::vector<Parameter>& parameters) {
  return absl::StrJoin(parameters, " ", [](std::string* out, const Parameter& parameter) {
    absl::StrAppend(out, parameter.name, "=", parameter.value);
  });
}

absl::StatusOr<std::vector<SizedProblem>> SizedProblemsOf(const AnySizeQuestion& question,
                                                          const StepCosts& costs,
                                                          const Stop* stop) {
  SL_RETURN_IF_ERROR(CheckForSizes(question, costs));
  SL_ASSIGN_OR_RETURN(const SweepPoints points,
                      Enumerate(question.ranges, question.search.parameters));
  constexpr size_t kMostSizes = 100;
  if (points.size() > kMostSizes) {
    return FieldError("ranges", absl::StrCat("these are ", points.size(),
                                             " sizes, and a search "
                                             "takes at most ",
                                             kMostSizes));
  }
  std::vector<SizedProblem> sizes;
  for (size_t i = 0; i < points.size(); ++i) {
    std::vector<Parameter> parameters;
    for (size_t n = 0; n < points.names.size(); ++n) {
      parameters.push_back({points.names[n], points.at(i)[n]});
    }
    const std::string name = NameOfSize(parameters);
    absl::StatusOr<SizedProblem> size =
        SizedProblemOf(question, costs, std::move(parameters), stop);
    if (!size.ok()) {
      return absl::Status(size.status().code(), absl::StrCat(name, ": ", size.status().message()));
    }
    sizes.push_back(*std::move(size));
  }
  // Bounds have a quarter of the time: texts are more useful.
  for (SizedProblem& size : sizes) {
    search::Problem bounded = size.placed.problem;
    const auto share = static_cast<int64_t>(question.search.seconds * 1e9 / 4) /
                       static_cast<int64_t>(sizes.size());
    const Stop over(stop, question.search.iterations > 0 ? Stop::kNever : NowNs() + share);
    bounded.stop = &over;
    size.bound = search::PartsOfBound(bounded);
  }
  return sizes;
}

std::optional<SizesScore> ScoreOf(const std::vector<SizedProblem>& sizes, const FamilyText& text,
                                  const FamilyChoice& choice, const Stop* stop) {
  SizesScore score;
  for (const std::optional<ValueOfRanks>& one : choice) score.chosen += one ? 1 : 0;
  for (const SizedProblem& size : sizes) {
    Diagnostics findings;
    const std::optional<Plan> plan = ElaboratedPlan(
        text.file, "", ParametersOf(text, choice, size.parameters), &findings, {.stop = stop});
    if (!plan || !IsSamePlace(*plan, size.stages)) return std::nullopt;
    const absl::StatusOr<search::Words> words = search::WordsOf(*plan);
    if (!words.ok() || !search::IsComplete(size.without_limit, *words)) return std::nullopt;
    const int64_t value = search::ValueOf(size.without_limit, *words);
    if (value >= search::kNoLimit) return std::nullopt;
    const double gap = search::GapOf(value, size.bound.sum());
    AddMemory(size.placed.problem, *words, &score);
    score.worst = std::max(score.worst, gap);
    score.sum += gap;
  }
  return score;
}

absl::StatusOr<SizesProof> ProveText(const AnySizeQuestion& question, const StepCosts& costs,
                                     const std::vector<SizedProblem>& sizes,
                                     const std::string& text, const Stop* stop) {
  SweepQuestion asked{.ranges = WholeRanges(question, sizes), .fixed = question.search.parameters};
  PlanRequest file{.file = "found.sched"};
  file.text = text;
  asked.schedules = {std::move(file)};
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(const std::optional<Sweep> sweep, ListSweep(asked, &broken));
  if (!sweep) return absl::InternalError(Render(broken->findings, broken->source));
  const RangeCheck check(question, costs, *sweep, stop);
  SL_ASSIGN_OR_RETURN(const CheckedSweep right, check.Run(/*limited=*/false));
  SL_ASSIGN_OR_RETURN(const CheckedSweep within, check.Run(/*limited=*/true));
  SizesProof proof{.plans = sweep->points.size(),
                   .right = right.Count(SweepVerdict::kRight),
                   .within = within.Count(SweepVerdict::kRight)};
  proof.range = absl::StrJoin(asked.ranges, " ", [](std::string* out, const SweepRange& range) {
    absl::StrAppend(out, range.name, "=", range.text);
  });
  proof.first_wrong = check.FirstWrong(right, /*limited=*/false);
  if (proof.within < proof.right) proof.first_beyond = check.FirstWrong(within, /*limited=*/true);
  proof.at_sizes = true;
  for (size_t i = 0; i < sweep->points.size(); ++i) {
    if (within.verdicts[i] == SweepVerdict::kRight) continue;
    const std::vector<Parameter> parameters = sweep->ParametersAt(i);
    for (const SizedProblem& size : sizes) {
      if (IsOfSize(parameters, size)) proof.at_sizes = false;
    }
  }
  return proof;
}

absl::StatusOr<std::vector<FoundAtSize>> TextAtSizes(const std::vector<SizedProblem>& sizes,
                                                     const std::string& text,
                                                     const std::vector<Parameter>& fixed) {
  SL_ASSIGN_OR_RETURN(const FamilyText read,
                      FamilyTextOf("found", Source("found.sched", text), fixed));
  std::vector<FoundAtSize> found;
  for (const SizedProblem& size : sizes) {
    Diagnostics findings;
    const std::optional<Plan> plan =
        ElaboratedPlan(read.file, "", ParametersOf(read, {}, size.parameters), &findings);
    if (!plan) return absl::InternalError(Render(findings, read.source));
    SL_ASSIGN_OR_RETURN(const search::Words words, search::WordsOf(*plan));
    FoundAtSize at{.parameters = size.parameters, .bound = size.bound, .library = size.library};
    at.value = search::ValueOf(size.placed.problem, words);
    CostModel costs = size.placed.costs;
    const Plan lowered = LoweredPlan(*plan, CommLayout::kEdge, costs.collectives);
    SL_ASSIGN_OR_RETURN(const Timeline timeline, CheckedTimeline(lowered, &costs));
    at.makespan = MeasureBubbles(timeline).makespan_ns;
    at.activations = MostActivationsOf(lowered);
    SL_ASSIGN_OR_RETURN(CountedBytes bytes, CountBytes(lowered, costs));
    at.bytes = std::move(bytes.ranks);
    found.push_back(std::move(at));
  }
  return found;
}

}  // namespace stringline
