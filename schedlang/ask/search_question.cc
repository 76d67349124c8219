#include "schedlang/ask/search_question.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/free_split.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/sweep_range.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// The most ranks and microbatches that are read; a search takes fewer.
constexpr int64_t kMostSaid = 1'000'000'000;
constexpr int64_t kNsOfSecond = 1'000'000'000;

absl::StatusOr<int64_t> ParameterOf(const std::vector<Parameter>& parameters, const char* name) {
  for (const Parameter& parameter : parameters) {
    if (parameter.name != name) continue;
    if (parameter.value >= 1 && parameter.value <= kMostSaid) return parameter.value;
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", parameter.value, " cannot be: it is in 1 .. ", kMostSaid));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("search needs ", name, ", as in: stringline search P=8 M=32"));
}

// The placements, and the order to begin with.
absl::Status FindStages(const SearchQuestion& question, SearchRequest* request) {
  const std::vector<Parameter>& parameters = question.parameters;
  if (question.begin) {
    PlanRequest begin = *question.begin;
    begin.parameters = parameters;
    begin.stop = request->stop;
    SL_ASSIGN_OR_RETURN(const Session session, OpenPlan(begin));
    if (IsWished(request->stop)) {
      return absl::CancelledError(
          absl::StrCat(begin.file, ": the search was stopped before it was read"));
    }
    if (!session.plan) {
      return absl::InvalidArgumentError(Render(session.diagnostics, session.source));
    }
    Plan plan = *session.plan;
    const absl::StatusOr<search::Words> words = search::WordsOf(plan);
    if (!words.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(begin.file, ": ", words.status().message()));
    }
    request->begin = *words;
    request->stages = {std::move(plan)};
    return absl::OkStatus();
  }
  SL_ASSIGN_OR_RETURN(const int64_t p, ParameterOf(parameters, "P"));
  SL_ASSIGN_OR_RETURN(const int64_t m, ParameterOf(parameters, "M"));
  for (const Parameter& parameter : parameters) {
    if (parameter.name == "P" || parameter.name == "M") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", parameter.name, "' is a parameter of a schedule: name it with `begin`"));
  }
  SL_ASSIGN_OR_RETURN(std::vector<PlacedStages> places,
                      StagesOf(question.place.empty() ? "line" : question.place, p, m));
  for (PlacedStages& place : places) {
    request->places.push_back(std::move(place.word));
    request->stages.push_back(std::move(place.stages));
  }
  return absl::OkStatus();
}

// The goal, and the optimiser's objective for it.
absl::Status FindGoal(const SearchQuestion& question, const StepCosts& costs,
                      SearchRequest* request) {
  SearchGoal& goal = request->goal;
  goal.objective = question.minimize;
  request->jitter = question.jitter;
  if (!question.jitter.empty() || question.seeds > 0) {
    goal.draws = question.seeds > 0 ? question.seeds : kUsualDraws;
  }
  if (question.expect == NameOf(Expect::kWorst)) goal.expect = Expect::kWorst;
  if (goal.draws == 0 && !question.expect.empty()) {
    return absl::InvalidArgumentError(
        "`expect` is of several draws of a step's times, and there is one; give `jitter`");
  }
  if (goal.draws > 0 && goal.objective != search::Objective::kMakespan) {
    return absl::InvalidArgumentError(
        absl::StrCat("`jitter` and `minimize=", search::NameOf(goal.objective),
                     "`: steps with jitter have a makespan and nothing else; leave one out"));
  }
  request->limits.objective = goal.objective;
  // The bound on spans knows when ranks begin, which further waits delay; that on periods does not.
  const absl::StatusOr<CostModel> model = ResolveCosts(costs, request->stages[0]);
  if (goal.objective == search::Objective::kSpan && model.ok() && goal.IsBeyondSearch(*model)) {
    request->limits.objective = search::Objective::kPeriod;
  }
  return absl::OkStatus();
}

// Refuses questions about copies that no search answers.
absl::Status CheckOffload(const SearchQuestion& question, size_t places) {
  if (question.offload == SearchOffload::kNone) {
    if (!question.host.is_given()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "`host_memory` limits copies to the host, which need `offload=any` or `offload=all`");
  }
  if (question.any_split) {
    return absl::InvalidArgumentError(
        "`offload` and `split=any`: give one of them; a split that was found can be given with the "
        "costs of its stages");
  }
  if (places > 1) {
    return absl::InvalidArgumentError(
        "`offload` is searched in one place: give it (`place=v`), not `place=any`");
  }
  if (question.activations >= 0) {
    return absl::InvalidArgumentError(
        "`offload` and `activations`: copies are placed within bytes; give `memory` instead");
  }
  return absl::OkStatus();
}

}  // namespace

SearchRecompute SearchRecomputeOf(absl::string_view word) {
  return word == "none"  ? SearchRecompute::kNone
         : word == "all" ? SearchRecompute::kAll
         : word == "any" ? SearchRecompute::kAny
                         : SearchRecompute::kAsCosts;
}

SearchOffload SearchOffloadOf(absl::string_view word) {
  return word == "all"   ? SearchOffload::kAll
         : word == "any" ? SearchOffload::kAny
                         : SearchOffload::kNone;
}

absl::StatusOr<int> MostActivations(const std::string& expression,
                                    const std::vector<Parameter>& parameters) {
  constexpr int64_t kMost = 1'000'000'000;
  if (expression.empty()) return -1;
  const absl::StatusOr<int64_t> value = ValueWith(expression, parameters);
  const auto refuse = [&expression](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("`activations=", expression, "`: ", why));
  };
  if (!value.ok()) return refuse(value.status().message());
  if (*value >= 0 && *value <= kMost) return static_cast<int>(*value);
  return refuse(absl::StrCat("that is ", *value, "; it may be 0 to ", kMost));
}

absl::StatusOr<SearchRequest> SearchRequestOf(const SearchQuestion& question, const Stop* stop) {
  if (question.begin && !question.place.empty()) {
    return absl::InvalidArgumentError("`begin` and `place`: give one of them");
  }
  SearchRequest request{.costs = question.costs, .memory = question.memory, .stop = stop};
  SL_RETURN_IF_ERROR(FindStages(question, &request));
  request.costs.for_places = request.stages.size() > 1;
  SL_ASSIGN_OR_RETURN(const StepCosts costs, FindCosts(request.costs));
  if (request.stages.size() > 1 && !costs.spec.IsOfModel()) {
    return absl::InvalidArgumentError(
        "`place=any` compares models cut into more and fewer stages: give costs of the whole model "
        "(`work=model`), or a model's shape (`costs=FILE.yaml`)");
  }
  std::vector<const Plan*> places;
  for (const Plan& stages : request.stages) places.push_back(&stages);
  SL_RETURN_IF_ERROR(CheckLinksOfSome(costs, places));
  SL_RETURN_IF_ERROR(FindGoal(question, costs, &request));
  search::Limits& limits = request.limits;
  limits.activations = question.activations;
  if (question.memory.is_given() && question.activations >= 0) {
    return absl::InvalidArgumentError("`memory` and `activations`: give one of them");
  }
  limits.whole = question.whole;
  limits.split = question.split;
  limits.pairs = question.pairs;
  request.recompute = question.recompute;
  SL_RETURN_IF_ERROR(CheckOffload(question, request.stages.size()));
  request.offload = question.offload;
  request.host = question.host;
  if (question.any_split) {
    if (!costs.spec.microbatches.empty()) {
      return absl::InvalidArgumentError(
          "`split=any` and unequal microbatches (microbatch): layers are shared out for equal "
          "ones; "
          "find the split without them");
    }
    request.any_split = true;
    request.layers = question.layers;
    SL_RETURN_IF_ERROR(LayersOfModel(costs, request.layers).status());
  } else if (question.layers >= 0) {
    return absl::InvalidArgumentError("`layers` says how many layers `split=any` shares out");
  }
  request.budget = {static_cast<int64_t>(question.seconds * kNsOfSecond), question.iterations,
                    static_cast<uint64_t>(question.seed)};
  return request;
}

}  // namespace stringline
