#include "schedlang/tune/plan_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/threads.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {
namespace {

std::string FirstFinding(const Diagnostics& findings) {
  const auto& all = findings.findings();
  return all.empty() ? "it has no plan" : all[0].text;
}

Choice ChoiceOf(const PlanKey& key) {
  Choice choice;
  choice.schedule = key.schedule;
  choice.pipeline = key.ranks;
  choice.microbatches = key.microbatches;
  choice.turns = key.turns;
  return choice;
}

PreparedPlan Made(const ast::File& file, const PlanKey& key) {
  PreparedPlan prepared;
  Diagnostics findings;
  std::optional<Plan> plan = ElaboratedPlan(file, "", ParametersOf(ChoiceOf(key)), &findings);
  if (!plan) {
    prepared.refused = FirstFinding(findings);
    return prepared;
  }
  prepared.written = *plan;
  const CollectiveChoice collectives = {.gathers = key.gathers, .reduces = key.reduces};
  plan = CheckedPlan(*std::move(plan), {.layout = CommLayout::kEdge}, &findings, collectives);
  if (!plan) {
    prepared.refused = FirstFinding(findings);
    return prepared;
  }
  prepared.lowered = *std::move(plan);
  prepared.wiring = WiringOf(prepared.lowered, CommLayout::kEdge);
  prepared.held = std::make_shared<const HeldPeaks>(prepared.lowered);
  return prepared;
}

}  // namespace

PlanKey KeyOf(const Choice& choice) {
  const CollectiveChoice collectives = CollectivesFor(choice.sharding, choice.copies());
  return {choice.schedule, choice.pipeline,     choice.microbatches,
          choice.turns,    collectives.gathers, collectives.reduces};
}

std::vector<Parameter> ParametersOf(const Choice& choice) {
  const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(choice.schedule)];
  std::vector<Parameter> parameters = {{"P", choice.pipeline}, {"M", choice.microbatches}};
  if (*schedule.turns == '\0') return parameters;
  // A wave goes down and back up.
  const int64_t passes = schedule.place == Place::kWave ? 2 : 1;
  parameters.push_back({schedule.turns, choice.turns / passes});
  return parameters;
}

PlanCache::PlanCache() {
  for (const KnownSchedule& schedule : KnownSchedules()) {
    absl::StatusOr<Source> source = OpenOfLibrary(schedule.name);
    SL_CHECK(source.ok()) << source.status();
    Diagnostics findings;
    std::optional<ast::File> file = ParseWithUses(&*source, &findings);
    SL_CHECK(file.has_value()) << Render(findings, *source);
    files_.push_back(std::make_shared<const ast::File>(*std::move(file)));
  }
}

std::vector<std::shared_ptr<const PreparedPlan>> PlanCache::Prepare(
    const std::vector<PlanKey>& keys, int threads) {
  ++calls_;
  std::vector<PlanKey> missing;
  for (const PlanKey& key : keys) {
    const auto [place, is_new] = kept_.try_emplace(key);
    place->second.used = calls_;
    if (is_new) missing.push_back(key);
  }
  std::vector<std::shared_ptr<const PreparedPlan>> made(missing.size());
  ForEachOnThreads(static_cast<int>(missing.size()), threads, [&](int i) {
    const ast::File& file = *files_[static_cast<size_t>(missing[i].schedule)];
    made[i] = std::make_shared<const PreparedPlan>(Made(file, missing[i]));
  });
  for (size_t i = 0; i < missing.size(); ++i) {
    actions_ += made[i]->lowered.actions.size();
    kept_[missing[i]].plan = std::move(made[i]);
  }
  std::vector<std::shared_ptr<const PreparedPlan>> plans;
  plans.reserve(keys.size());
  for (const PlanKey& key : keys) plans.push_back(kept_[key].plan);
  while (actions_ > kMostActions) DropOldest();
  return plans;
}

void PlanCache::DropOldest() {
  const auto oldest =
      std::min_element(kept_.begin(), kept_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  actions_ -= oldest->second.plan->lowered.actions.size();
  kept_.erase(oldest);
}

}  // namespace stringline::tune
