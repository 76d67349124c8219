// Copies are placed anew with less room while the checker's count exceeds a limit: it also counts
// messages for as long as others may read them, and gaps between values.
#include "schedlang/ask/placed_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/true_value.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/check/rules.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/orders/place_ahead.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/recompute.h"

namespace stringline {
namespace {

constexpr size_t kMostPackedActions = 60;  // of a plan that is only looked at quickly

// An F of every stage, with its copies, and with its R where the stage recomputes.
Plan SampleOf(const Plan& stages, const std::vector<int64_t>& recomputes, bool copies, bool apart) {
  Plan sample = stages;
  sample.actions.clear();
  sample.first = {0};
  for (int r = 0; r < stages.ranks(); ++r) {
    for (size_t s = 0; s < stages.stages.size(); ++s) {
      if (stages.stages[s].rank.value != r) continue;
      Action action{.stage = StageId(static_cast<int32_t>(s)), .microbatch = MicrobatchId(0)};
      const auto add = [&](ActionKind kind) {
        action.kind = kind;
        sample.actions.push_back(action);
      };
      add(ActionKind::kForward);
      if (copies) {
        add(ActionKind::kOffload);
        add(ActionKind::kFetch);
      }
      if (apart && recomputes[s] == 1) add(ActionKind::kRecompute);
    }
    sample.first.push_back(static_cast<uint32_t>(sample.actions.size()));
  }
  FindRemaking(&sample);
  return sample;
}

WorkScore ScoreOf(const std::optional<PlacedWork>& work) {
  return work ? work->score : WorkScore{};
}

}  // namespace

search::Words WordsWithoutWork(const Plan& plan) {
  Plan orders = plan;
  orders.actions.clear();
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto list = plan.of(RankId(r));
    for (size_t i = 0; i < list.size();) {
      const auto group = GroupAt(list, i);
      bool is_first = true;
      for (Action action : group) {
        if (action.kind == ActionKind::kRecompute || IsCopy(action.kind)) continue;
        action.joined = !is_first;
        is_first = false;
        orders.actions.push_back(action);
      }
      i += group.size();
    }
    orders.first[static_cast<size_t>(r) + 1] = static_cast<uint32_t>(orders.actions.size());
  }
  const absl::StatusOr<search::Words> words = search::WordsOf(orders);
  SL_CHECK(words.ok()) << words.status();
  return *words;
}

absl::StatusOr<CountedBytes> CountBytes(const Plan& lowered, const CostModel& costs) {
  CountedBytes bytes;
  if (costs.memory.empty()) return bytes;
  SL_ASSIGN_OR_RETURN(const MemoryPlan memory,
                      PlanMemory(lowered, SizesOfCosts(lowered, costs.memory)));
  for (const RankMemory& rank : memory.ranks) {
    bytes.ranks.push_back(rank.all());
    if (HasCopies(lowered)) bytes.hosts.push_back(rank.host);
  }
  return bytes;
}

absl::StatusOr<Timeline> CheckedTimeline(const Plan& lowered, CostModel* costs) {
  Diagnostics findings;
  if (!Check(lowered, CheckOptions{}, &findings)) {
    return absl::InternalError(
        absl::StrCat("the plan that was found is wrong: ", findings.findings().front().text));
  }
  PriceGroups(lowered, costs);
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge, costs->receive_buffers);
  return SimulatedStep(lowered, wiring, *costs);
}

absl::Status SimulateFound(const SearchRequest& request, FoundSchedule* found) {
  SL_ASSIGN_OR_RETURN(found->timeline, CheckedTimeline(found->lowered, &found->costs));
  found->goal = request.goal;
  if (request.goal.draws > 0) {
    SL_RETURN_IF_ERROR(SetJitter(request.jitter, &found->costs));
    found->drawn_ns = SimulatedValues(found->plan, found->costs, found->goal);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkPlacer> WorkPlacer::For(const SearchRequest& request, const StepCosts& costs,
                                           const Plan& stages, std::vector<int64_t> choices) {
  WorkPlacer placer(request, stages, std::move(choices));
  const std::vector<int64_t> recomputes = search::StagesThat(search::kRecomputes, placer.choices_);
  const bool copies = search::HasAny(search::StagesThat(search::kOffloads, placer.choices_));
  StepCosts step = costs;
  step.spec.values["recompute"] = recomputes;
  for (const bool apart : {false, true}) {
    CostModel& own = apart ? placer.apart_ : placer.inside_;
    const auto costs_with = [&](bool with_copies) {
      return CostsOfGoal(step, SampleOf(stages, recomputes, with_copies, apart), request.goal,
                         request.jitter);
    };
    SL_ASSIGN_OR_RETURN(own, costs_with(false));
    if (!copies) continue;
    absl::StatusOr<CostModel> with = costs_with(true);
    if (!with.ok()) {
      return absl::InvalidArgumentError(
          "`offload` needs the time of a copy: give D, or host.bandwidth and what a microbatch "
          "holds (memory.saved_for_I, memory.saved_for_W)");
    }
    own = *std::move(with);
  }
  const CostModel* const known = &placer.inside_;
  SL_ASSIGN_OR_RETURN(placer.memory_, MemoryLimitOf(request.memory, known, stages.ranks()));
  SL_ASSIGN_OR_RETURN(placer.host_, HostLimitOf(request.host, known, stages.ranks()));
  return placer;
}

std::vector<WorkPlacer::Way> WorkPlacer::WaysOf(const search::Words& words, Effort effort) const {
  const std::vector<int64_t> recomputes = search::StagesThat(search::kRecomputes, choices_);
  const std::vector<int64_t> offloads = search::StagesThat(search::kOffloads, choices_);
  std::vector<Way> ways;
  const auto add = [&](Plan plan, const CostModel* costs) {
    Way way{.plan = std::move(plan), .costs = costs, .rooms = {}};
    for (size_t s = 0; s < costs->memory.size(); ++s) {
      way.rooms.push_back(RoomOf(costs->memory[s], way.plan.stages[s].remakes, offloads[s] == 1));
    }
    ways.push_back(std::move(way));
  };
  Plan order = search::PlanOf(stages_, words);
  order.recompute = search::RecomputeOfPlan(recomputes);
  add(order, &inside_);
  for (const int64_t ahead : {0, 1, 2}) {
    if (!search::HasAny(recomputes) || (effort == Effort::kQuick && ahead > 0)) break;
    const std::vector<int64_t> by_rank(static_cast<size_t>(stages_.ranks()), ahead);
    add(PlaceRecomputes(order, by_rank, recomputes), &apart_);
  }
  return ways;
}

std::optional<WorkPlacer::Beyond> WorkPlacer::BeyondLimits(const Plan& plan, const CostModel& costs,
                                                           Effort effort) const {
  const Plan lowered = LoweredPlan(plan, CommLayout::kEdge, costs.collectives);
  const bool is_large = plan.actions.size() > kMostPackedActions;
  const auto sizes = SizesOfCosts(lowered, costs.memory);
  std::vector<int64_t> most;
  for (int r = 0; r < lowered.ranks(); ++r) most.push_back(memory_.of(r));
  const auto memory = is_large && effort == Effort::kQuick
                          ? PlanMemory(lowered, sizes, Sharing::kAnySize)
                          : PlanMemoryBeyond(lowered, sizes, most);
  if (!memory.ok()) return std::nullopt;
  Beyond beyond;
  bool is_any = false;
  for (int r = 0; r < lowered.ranks(); ++r) {
    const RankMemory& rank = memory->ranks[static_cast<size_t>(r)];
    const auto over = [&](int64_t bytes, int64_t most) {
      const int64_t more = most < 0 ? 0 : std::max<int64_t>(0, bytes - most);
      is_any = is_any || more > 0;
      return more;
    };
    beyond.ranks.push_back(over(rank.all(), memory_.of(r)));
    beyond.hosts.push_back(over(rank.host, host_.of(r)));
    beyond.always.push_back(rank.all() - rank.block);
  }
  if (!is_any) beyond.ranks.clear();
  return beyond;
}

std::optional<Plan> WorkPlacer::Fitting(const Way& way, const CopyPace& pace, Effort effort) const {
  constexpr int kTries = 8;
  if (way.rooms.empty() || !memory_.is_given()) return way.plan;
  std::optional<Beyond> beyond = BeyondLimits(way.plan, *way.costs, effort);
  if (!beyond) return std::nullopt;
  if (beyond->ranks.empty()) return way.plan;
  if (pace.ahead.empty()) return std::nullopt;
  CopyRoom room{.stages = way.rooms, .capacity = {}, .host = {}};
  for (int r = 0; r < stages_.ranks(); ++r) {
    const auto at = static_cast<size_t>(r);
    const int64_t most = memory_.of(r);
    room.capacity.push_back(beyond->ranks[at] > 0 ? most - beyond->always[at] : search::kNoLimit);
    room.host.push_back(host_.of(r) >= 0 ? host_.of(r) : search::kNoLimit);
  }
  for (int i = 0; i < kTries; ++i) {
    std::optional<Plan> plan = PlaceCopiesWithin(way.plan, room, pace);
    if (!plan) return std::nullopt;
    beyond = BeyondLimits(*plan, *way.costs, effort);
    if (!beyond) return std::nullopt;
    if (beyond->ranks.empty()) return plan;
    for (size_t r = 0; r < room.capacity.size(); ++r) {
      if (room.capacity[r] < search::kNoLimit) room.capacity[r] -= beyond->ranks[r];
      room.host[r] -= beyond->hosts[r];
    }
  }
  return std::nullopt;
}

std::optional<Plan> WorkPlacer::FittingWithAll(const Way& way, int64_t ahead, Effort effort) const {
  const std::vector<int64_t> by_rank(static_cast<size_t>(stages_.ranks()), ahead);
  Plan plan = PlaceCopies(way.plan, by_rank, search::StagesThat(search::kOffloads, choices_));
  if (way.rooms.empty() || (!memory_.is_given() && !host_.is_given())) return plan;
  const std::optional<Beyond> beyond = BeyondLimits(plan, *way.costs, effort);
  if (!beyond || !beyond->ranks.empty()) return std::nullopt;
  return plan;
}

WorkScore WorkPlacer::Offer(const std::optional<Plan>& plan, const CostModel& costs,
                            std::optional<PlacedWork>* best) const {
  if (!plan) return {};
  const WorkScore score = {
      SimulatedValue(*plan, costs, request_.goal),
      std::count_if(plan->actions.begin(), plan->actions.end(),
                    [](const Action& action) { return action.kind == ActionKind::kOffload; })};
  if (score < ScoreOf(*best)) *best = PlacedWork{*plan, score};
  return score;
}

void WorkPlacer::ClimbCopies(const Way& way, bool swaps, Effort effort,
                             std::optional<PlacedWork>* best) const {
  ClimbPace(stages_.ranks(), swaps, effort == Effort::kWhole, [&](const CopyPace& pace) {
    if (IsWished(request_.stop) && *best) return std::pair(search::kNoLimit, int64_t{0});
    const WorkScore score = Offer(Fitting(way, pace, effort), *way.costs, best);
    return std::pair(score.value, score.copies);
  });
}

std::optional<PlacedWork> WorkPlacer::Place(const search::Words& words, WorkScore below,
                                            Effort effort) const {
  std::optional<PlacedWork> best;
  const std::vector<int64_t> offloads = search::StagesThat(search::kOffloads, choices_);
  const bool all_copy = std::find(offloads.begin(), offloads.end(), 0) == offloads.end();
  for (const Way& way : WaysOf(words, effort)) {
    if (IsWished(request_.stop) && best) break;
    // Copies only delay an order.
    const int64_t least = SimulatedValue(way.plan, *way.costs, request_.goal);
    if (std::min(below, ScoreOf(best)) < WorkScore{least, 0}) continue;
    if (!search::HasAny(offloads)) {
      Offer(Fitting(way, {}, effort), *way.costs, &best);
      continue;
    }
    for (const bool swaps : {false, true}) {
      if (request_.offload == SearchOffload::kAny) ClimbCopies(way, swaps, effort, &best);
    }
    for (const int64_t ahead : {1, 2, 3, 4}) {
      if (all_copy) Offer(FittingWithAll(way, ahead, effort), *way.costs, &best);
    }
  }
  if (best && !(best->score < below)) best.reset();
  return best;
}

}  // namespace stringline
