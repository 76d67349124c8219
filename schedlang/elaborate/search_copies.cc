// Plans are timed by walking along all ranks as far as each can go; copies have a lane each way, as
// in the simulator. Their bytes are those of the list, as `within memory` counts them.
#include "schedlang/elaborate/search_copies.h"

#include <algorithm>
#include <utility>

#include "schedlang/base/fnv.h"
#include "schedlang/costs/recompute.h"
#include "schedlang/elaborate/search_problem.h"
#include "schedlang/orders/place_ahead.h"
#include "schedlang/orders/place_within.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/recompute.h"

namespace stringline {
namespace {

using search::Problem;
using search::Words;
using Choices = std::vector<int64_t>;
using Score = std::pair<int64_t, int64_t>;  // the objective's value, and copies

constexpr Score kNoScore = {search::kNoLimit, 0};

// The times of a plan's actions, an R and a copy being as long as their F.
class PlanClock {
 public:
  PlanClock(const Plan& plan, const Problem& problem) : plan_(plan), problem_(problem) {
    const size_t values = plan.stages.size() * static_cast<size_t>(plan.microbatches);
    forward_.assign(values, kUnknown);
    gradient_.assign(values, kUnknown);
    copied_.assign(values, 0);
    fetched_.assign(values, 0);
    ranks_.resize(static_cast<size_t>(plan.ranks()));
    for (int r = 0; r < plan.ranks(); ++r) ranks_[static_cast<size_t>(r)].next = plan.first[r];
  }

  // kNoLimit for a plan that never ends.
  int64_t Value() {
    for (bool moves = true; moves;) {
      moves = false;
      for (int r = 0; r < plan_.ranks(); ++r) {
        while (Perform(r)) moves = true;
      }
    }
    int64_t end = 0, span = 0;
    for (int r = 0; r < plan_.ranks(); ++r) {
      const RankClock& rank = ranks_[static_cast<size_t>(r)];
      if (rank.next != plan_.first[r + 1]) return search::kNoLimit;
      end = std::max(end, rank.now);
      span = std::max(span, rank.now - std::max<int64_t>(0, rank.start));
    }
    return problem_.objective == search::Objective::kSpan ? span : end;
  }

 private:
  static constexpr int64_t kUnknown = -1;
  struct RankClock {
    uint32_t next = 0;
    int64_t start = kUnknown;   // of its first computation
    int64_t now = 0;            // the end of its computations so far
    int64_t out = 0, back = 0;  // the ends of its D and of its U so far
  };

  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * static_cast<size_t>(plan_.microbatches) +
           static_cast<size_t>(microbatch.value);
  }
  const search::StageWork& WorkOf(StageId stage) const {
    return problem_.stages[static_cast<size_t>(stage.value)];
  }

  // The arrival of what the action needs from a neighbour; kUnknown if that is not known yet.
  int64_t ArrivalOf(const Action& action) const {
    const bool forward = action.kind == ActionKind::kForward;
    const bool back =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    const StageId from = forward ? plan_.graph.Before(action.stage)
                         : back  ? plan_.graph.Behind(action.stage)
                                 : StageId();
    if (!from.valid()) return 0;
    const int64_t end = (forward ? forward_ : gradient_)[Index(from, action.microbatch)];
    if (end == kUnknown || plan_.SameRank(from, action.stage)) return end;
    return end + (forward ? WorkOf(from).activation : WorkOf(from).gradient).all();
  }

  int64_t TimeOf(absl::Span<const Action> group) const {
    if (group[0].kind == ActionKind::kRecompute) {
      return WorkOf(group[0].stage).time[search::kForwardAt];
    }
    search::Group letters{search::LetterOf(group[0].kind, group[0].stage.value)};
    if (group.size() == 2) {
      letters.second = search::LetterOf(group[1].kind, group[1].stage.value);
    }
    return problem_.TimeOf(letters);
  }

  void Copy(const Action& action, RankClock* rank) {
    const size_t index = Index(action.stage, action.microbatch);
    const int64_t takes = WorkOf(action.stage).time[search::kForwardAt];
    if (action.kind == ActionKind::kOffload) {
      rank->out = copied_[index] = std::max(rank->out, forward_[index]) + takes;
    } else {
      rank->back = fetched_[index] =
          std::max({rank->back, copied_[index], rank->out, rank->now}) + takes;
    }
  }

  // The rank's next group. False at its end, and where it must wait.
  bool Perform(int r) {
    RankClock& rank = ranks_[static_cast<size_t>(r)];
    if (rank.next == plan_.first[r + 1]) return false;
    const auto group = GroupAt(plan_.actions, rank.next);
    if (IsCopy(group[0].kind)) {
      Copy(group[0], &rank);
      ++rank.next;
      return true;
    }
    int64_t start = std::max(rank.now, rank.out);
    for (const Action& action : group) {
      const int64_t arrival = ArrivalOf(action);
      if (arrival == kUnknown) return false;
      start = std::max({start, arrival, fetched_[Index(action.stage, action.microbatch)]});
    }
    if (rank.start == kUnknown) rank.start = start;
    rank.now = start + TimeOf(group);
    for (const Action& action : group) {
      const size_t index = Index(action.stage, action.microbatch);
      if (action.kind == ActionKind::kForward) forward_[index] = rank.now;
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
        gradient_[index] = rank.now;
      }
    }
    rank.next += static_cast<uint32_t>(group.size());
    return true;
  }

  const Plan& plan_;
  const Problem& problem_;
  std::vector<int64_t> forward_, gradient_;  // ends, by stage and microbatch
  std::vector<int64_t> copied_, fetched_;    // ends of copies; 0: there is none
  std::vector<RankClock> ranks_;
};

class CopySearch {
 public:
  CopySearch(const OrderRules& rules, const SearchPlace& place, const Stop* stop)
      : rules_(rules), place_(place), problems_(rules, place.plan), stop_(stop) {
    const size_t count = place.plan.stages.size();
    Choices fixed = problems_.FixedRecomputes();
    fixed.resize(count, 0);
    for (size_t s = 0; s < count; ++s) {
      std::vector<int64_t>& of = choices_.emplace_back();
      for (const int64_t copies : {int64_t{0}, search::kOffloads}) {
        if (copies == 0 && rules.search.offload_all) continue;
        if (rules.search.recompute_any) {
          of.insert(of.end(), {copies, copies + search::kRecomputes});
        } else {
          of.push_back(copies + fixed[s]);
        }
      }
    }
  }

  // A choice's problem, in which stages that copy hold a share between F and B.
  Problem ProblemOf(const Choices& choices, double share) const {
    Problem problem =
        problems_.Of(place_.partition, search::StagesThat(search::kRecomputes, choices));
    for (size_t s = 0; s < choices.size() && rules_.search.in_memory; ++s) {
      if ((choices[s] & search::kOffloads) == 0) continue;
      search::HoldShare(search::HeldOf(MemoryOf(s, choices[s])), share, &problem.stages[s]);
    }
    problem.stop = stop_;
    return problem;
  }

  Problem LeastOfAll() const {
    Problem least = ProblemOf(Choices(choices_.size(), 0), 1);
    for (size_t k = 0; k < choices_[0].size(); ++k) {
      least = search::WithEitherChoice(std::move(least), ProblemOf(Alike(k), 0));
    }
    return least;
  }

  struct Placed {
    Plan plan;
    Score score = kNoScore;
  };
  // The best plan of the order for the choices; without actions if none is better than `below`.
  Placed Place(const Words& words, const Choices& choices, Score below, bool whole) const {
    Placed best{.score = below};
    const Choices remakes = search::StagesThat(search::kRecomputes, choices);
    Plan order = search::PlanOf(place_.plan, words);
    order.recompute = search::RecomputeOfPlan(remakes);
    Offer(order, ProblemOf(choices, 1), choices, whole, &best);
    const Problem apart =
        ProblemOf(search::StagesThat(search::kOffloads, choices), 1);  // times without recomputing
    for (const int64_t ahead : {0, 1, 2}) {
      if (!search::HasAny(remakes) || (!whole && ahead > 0)) break;
      const std::vector<int64_t> by_rank(rules_.ranks.size(), ahead);
      Offer(PlaceRecomputes(order, by_rank, remakes), apart, choices, whole, &best);
    }
    return best;
  }

  search::Found Find(const search::Effort& effort) const {
    std::vector<Words> begin;
    const Problem least = LeastOfAll();
    search::Found found;
    found.bound = search::LowerBoundOf(least);
    if (!rules_.search.offload_all) TakePlain(effort, &begin, &found);
    Score best = {found.value, 0};
    const search::RecomputeTrial trial = search::ClimbRecomputes(
        static_cast<int>(choices_.size()),
        {.value = [&](const auto& choices, const auto& words,
                      int64_t /*moves*/) { return Value(choices, words, begin, effort.seed); },
         .all = search::DoInTurn,
         .goes_on = [&](int64_t spent) { return spent < effort.iterations && !IsWished(stop_); },
         .choices = choices_});
    Take(trial.stages, {trial.words}, &best, &found);
    if (found.recomputes.empty()) return found;
    const Choices choices = found.recomputes;
    for (const double share : {0.0, 0.5}) {
      const Problem problem = ProblemOf(choices, share);
      search::Candidates candidates = Beginning(problem, begin, found.words);
      search::SearchShortly(problem, search::kShortMoves, effort.seed, &candidates);
      candidates = search::Explore(problem, std::move(candidates), found.bound,
                                   {std::max<int64_t>(1, effort.iterations / 2), effort.seed});
      std::vector<Words> orders;
      for (const search::Candidate& candidate : candidates.all()) {
        orders.push_back(candidate.words);
      }
      Take(choices, orders, &best, &found);
    }
    found.bound = std::min(found.bound, found.value);
    return found;
  }

 private:
  Choices Alike(size_t k) const {
    Choices alike;
    for (const std::vector<int64_t>& of : choices_) alike.push_back(of[k]);
    return alike;
  }

  StageMemory MemoryOf(size_t stage, int64_t choice) const {
    StageMemory held = problems_.MemoryOf(place_.partition, StageId(static_cast<int32_t>(stage)));
    if ((choice & search::kRecomputes) != 0) KeepInput(held[MemoryClass::kKept], &held);
    return held;
  }

  // The room of the plan's actions. With R, what it begins with is saved no more beside it.
  CopyRoom RoomFor(const Plan& plan, const Choices& choices) const {
    CopyRoom room;
    for (size_t s = 0; s < choices.size(); ++s) {
      const bool remakes = plan.stages[s].remakes;
      StageMemory held = MemoryOf(s, remakes ? 0 : choices[s]);
      int64_t& for_input = held[MemoryClass::kSavedForInput];
      if (remakes) for_input = std::max<int64_t>(0, for_input - held[MemoryClass::kKept]);
      ActionRoom own = RoomOf(held, remakes, (choices[s] & search::kOffloads) != 0);
      own.during[search::kWholeAt] += held.remade_for_input + held.remade_for_weight;
      own.during[search::kInputAt] += held.remade_for_input;
      room.stages.push_back(own);
    }
    for (const std::optional<int64_t>& most : rules_.search.most) {
      room.capacity.push_back(rules_.search.in_memory ? most.value_or(search::kNoLimit)
                                                      : search::kNoLimit);
      room.host.push_back(search::kNoLimit);
    }
    return room;
  }

  void Offer(const Plan& order, const Problem& problem, const Choices& choices, bool whole,
             Placed* best) const {
    if (best->score < Score{PlanClock(order, problem).Value(), 0}) return;  // copies only delay it
    const CopyRoom room = RoomFor(order, choices);
    const auto offer = [&](const Plan& plan) {
      const int64_t copies =
          std::count_if(plan.actions.begin(), plan.actions.end(),
                        [](const Action& action) { return action.kind == ActionKind::kOffload; });
      const Score score = {PlanClock(plan, problem).Value(), copies};
      if (score < best->score) *best = {plan, score};
      return score;
    };
    const Choices stages = search::StagesThat(search::kOffloads, choices);
    if (!rules_.search.offload_all) {
      for (const bool swaps : {false, true}) {
        ClimbPace(static_cast<int>(rules_.ranks.size()), swaps, whole,
                  [&](const CopyPace& pace) -> Score {
                    const auto plan = PlaceCopiesWithin(order, room, pace);
                    return plan ? offer(*plan) : kNoScore;
                  });
      }
    }
    for (const int64_t ahead : {1, 2, 3, 4}) {
      if (std::count(stages.begin(), stages.end(), 0) > 0) break;
      const std::vector<int64_t> by_rank(rules_.ranks.size(), ahead);
      const Plan plan = PlaceCopies(order, by_rank, stages);
      if (IsWithin(plan, room)) offer(plan);
    }
  }

  // Takes the search result without copies.
  void TakePlain(const search::Effort& effort, std::vector<Words>* begin,
                 search::Found* found) const {
    const search::Partitioning plain = PartitioningOf(rules_, place_);
    Problem problem = plain.problem_of(place_.partition);
    problem.stop = stop_;
    if (!search::CanBeKept(problem)) return;
    search::Found without = search::FindPlace({&plain, 1}, effort);
    if (without.words.empty()) return;
    begin->push_back(without.words);
    found->words = std::move(without.words);
    found->value = without.value;
    found->recomputes = rules_.search.recompute_any ? without.recomputes : Alike(0);
  }

  static search::Candidates Beginning(const Problem& problem, std::vector<Words> begin,
                                      const Words& further) {
    begin.push_back(further);
    return search::BeginWith(problem, begin);
  }

  search::RecomputeTrial Value(const Choices& choices, const Words& words,
                               const std::vector<Words>& begin, uint64_t seed) const {
    search::RecomputeTrial trial{.stages = choices};
    for (const double share : {0.0, 0.5}) {
      if (share > 0 && !search::HasAny(search::StagesThat(search::kOffloads, choices))) break;
      const Problem problem = ProblemOf(choices, share);
      if (!search::CanBeKept(problem)) continue;
      search::Candidates candidates = Beginning(problem, begin, words);
      search::SearchShortly(problem, search::kShortMoves, seed, &candidates);
      for (size_t i = 0; i < std::min<size_t>(2, candidates.all().size()); ++i) {
        const Words& tried = candidates.all()[i].words;
        const Placed placed = Place(tried, choices, {trial.score.value, 0}, false);
        if (placed.plan.actions.empty()) continue;
        trial.score.value = placed.score.first;
        trial.words = tried;
      }
    }
    return trial;
  }

  void Take(const Choices& choices, const std::vector<Words>& orders, Score* best,
            search::Found* found) const {
    for (const Words& words : orders) {
      if (words.empty()) continue;
      const Placed placed = Place(words, choices, *best, true);
      if (placed.plan.actions.empty()) continue;
      *best = placed.score;
      found->words = words;
      found->value = best->first;
      found->recomputes = choices;
    }
  }

  const OrderRules& rules_;
  const SearchPlace& place_;
  const SearchProblem problems_;
  const Stop* const stop_;
  std::vector<std::vector<int64_t>> choices_;  // by stage
};

}  // namespace

Problem LeastHeld(const OrderRules& rules, const SearchPlace& place) {
  return CopySearch(rules, place, nullptr).LeastOfAll();
}

std::optional<CopiedOrders> FindCopies(const OrderRules& rules, const SearchPlace& place,
                                       const search::Effort& effort,
                                       const ElaborateLimits& limits) {
  const CopySearch copies(rules, place, limits.stop);
  const auto planned = [&](search::Found found) -> std::optional<CopiedOrders> {
    if (found.words.empty() || found.recomputes.size() != place.plan.stages.size()) {
      return std::nullopt;
    }
    auto placed = copies.Place(found.words, found.recomputes, kNoScore, true);
    if (placed.score.first != found.value) return std::nullopt;
    found.partition = place.partition;
    return CopiedOrders{std::move(placed.plan), std::move(found)};
  };
  Fnv key;
  key.Add(search::KeyOf(copies.LeastOfAll(), effort));
  key.Add(SearchProblem(rules, place.plan).Key());
  key.Add(rules.search.offload_all ? 1 : 2);
  if (limits.kept != nullptr) {
    auto before = limits.kept->Find(key.value());
    if (before && search::IsComplete(copies.ProblemOf(before->recomputes, 0), before->words)) {
      if (auto known = planned(*std::move(before))) return known;
    }
  }
  search::Effort allowed = effort;
  const int64_t letters = std::max<int64_t>(1, search::LettersOf(copies.LeastOfAll()));
  allowed.iterations = std::clamp<int64_t>(limits.searched_letters / letters, 1, effort.iterations);
  auto found = planned(copies.Find(allowed));
  const bool is_whole = allowed.iterations == effort.iterations && !IsWished(limits.stop);
  if (found && limits.kept != nullptr && is_whole) limits.kept->Keep(key.value(), found->found);
  return found;
}

}  // namespace stringline
