// The optimiser's problem is made of the plan's stages and of what the block says. Before it is
// asked, each rank's limit is compared with the least that any order holds there.
#include "schedlang/elaborate/search_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/search.h"

namespace stringline {
namespace {

using search::Problem;
using search::StageWork;

// The table of pairs is square in the stages.
constexpr int kMostSearchedStages = 4096;
constexpr int64_t kMostSearchedLetters = 10'000'000;

// About a second on one core. For many letters that would be little more than the plain rules, so
// there it may be up to twenty.
constexpr int64_t kMostByDefault = 200'000;
constexpr int64_t kEnoughByDefault = 4'000;
constexpr int64_t kLettersOfASecond = 130'000'000;

int64_t DefaultIterations(const Problem& problem) {
  const int64_t in_a_second =
      kLettersOfASecond / std::max<int64_t>(1, search::LettersOf(problem)) + 1;
  const int64_t least = std::min(kEnoughByDefault, 20 * in_a_second);
  return std::clamp(in_a_second, least, kMostByDefault);
}

class SearchProblem {
 public:
  SearchProblem(const OrderRules& rules, const Plan& plan) : rules_(rules), plan_(plan) {
    problem_.ranks = static_cast<int>(rules.ranks.size());
    const std::vector<ActionKind>& prefer = rules.ranks.front().prefer;
    const auto uses = [&prefer](ActionKind kind) {
      return prefer.empty() || std::count(prefer.begin(), prefer.end(), kind) > 0;
    };
    problem_.whole = uses(ActionKind::kBackward);
    problem_.split = uses(ActionKind::kInputGradient);
    problem_.objective = *search::ObjectiveOf(rules.search.objective);
    for (const std::optional<int64_t>& most : rules.search.most) {
      problem_.capacity.push_back(most.value_or(search::kNoLimit));
    }
    for (size_t s = 0; s < plan.stages.size(); ++s) AddStage(StageId(static_cast<int32_t>(s)));
    for (const auto& [back, costs] : rules.search.pairs) {
      const bool whole = back == ActionKind::kBackward;
      (whole ? problem_.whole_pairs : problem_.input_pairs) = PairTimes(back, costs);
    }
  }

  Problem Take() { return std::move(problem_); }

 private:
  // The stage, counted from the first one of its pipe.
  int Along(size_t stage) const {
    const auto id = static_cast<int>(stage);
    if (plan_.pipes.empty()) return id;
    const int pipe = plan_.stages[stage].pipe;
    return id - plan_.pipes[static_cast<size_t>(pipe)].first_stage.value;
  }

  // One value for all stages, or one for each.
  static int64_t At(const std::vector<int64_t>& values, int stage) {
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(stage)];
  }

  int64_t Hop(StageId from, StageId to) const {
    const bool other = to.valid() && plan_.stage(from).rank != plan_.stage(to).rank;
    return other ? rules_.costs.p2p : 0;
  }

  void AddStage(StageId id) {
    const Stage& stage = plan_.stage(id);
    const int along = Along(static_cast<size_t>(id.value));
    StageWork work = search::WorkOf(plan_, id);
    for (size_t k = 0; k < work.time.size(); ++k) {
      work.time[k] = rules_.costs.of(static_cast<ActionKind>(k), along);
    }
    work.activation.latency = Hop(id, stage.next);
    work.gradient.latency = Hop(id, stage.previous);
    if (rules_.search.in_memory) {
      const HeldCosts& held = rules_.search.held;
      search::HoldBytes({.for_input = At(held.saved_for_input, along),
                         .for_weight = At(held.saved_for_weight, along),
                         .stash = At(held.stash, along)},
                        &work);
    } else {
      search::HoldActivations(&work);
    }
    problem_.stages.push_back(work);
  }

  std::vector<int64_t> PairTimes(ActionKind back, const std::vector<int64_t>& costs) const {
    return search::PairTimes(problem_, [&](int a, int b) {
      if (!costs.empty()) return At(costs, Along(static_cast<size_t>(a)));
      return problem_.stages[a].time[search::kForwardAt] +
             problem_.stages[b].time[search::Index(back)];
    });
  }

  const OrderRules& rules_;
  const Plan& plan_;
  Problem problem_;
};

bool FindTooLarge(const Plan& plan, const OrderRules& rules, Diagnostics* diagnostics,
                  std::string text) {
  diagnostics->Add(Code::kTooLong, rules.span, std::move(text)).where = PrintParameters(plan);
  return false;
}

// False after a finding for every rank on which no order stays below the limit.
bool LimitsCanBeKept(const Problem& problem, const OrderRules& rules, const Plan& plan,
                     Diagnostics* diagnostics) {
  bool good = true;
  for (int r = 0; r < problem.ranks; ++r) {
    const int64_t most = problem.capacity[static_cast<size_t>(r)];
    const int64_t needs = search::LeastCapacity(problem, r);
    if (needs <= most) continue;
    good = false;
    const std::string limit = rules.search.in_memory
                                  ? absl::StrCat("memory ", most)
                                  : absl::StrCat(most, most == 1 ? " activation" : " activations");
    diagnostics
        ->Add(Code::kNoOrder, rules.search.most_span,
              absl::StrCat("no order exists within ", limit, " on rank ", r, ": it needs ", needs))
        .where = PrintParameters(plan);
  }
  return good;
}

}  // namespace

bool SearchOrders(const OrderRules& rules, const ElaborateLimits& limits, Plan* plan,
                  Diagnostics* diagnostics) {
  const size_t stages = plan->stages.size();
  if (stages > kMostSearchedStages) {
    return FindTooLarge(*plan, rules, diagnostics,
                        absl::StrCat("a search orders at most ", kMostSearchedStages,
                                     " stages, and there are ", stages));
  }
  const Problem problem = SearchProblem(rules, *plan).Take();
  const int64_t letters = search::LettersOf(problem);
  if (letters > kMostSearchedLetters) {
    return FindTooLarge(*plan, rules, diagnostics,
                        absl::StrCat("a search orders at most ", kMostSearchedLetters,
                                     " actions, and there are ", letters));
  }
  if (!LimitsCanBeKept(problem, rules, *plan, diagnostics)) return false;
  search::Effort effort;
  effort.iterations = rules.search.iterations.value_or(DefaultIterations(problem));
  const search::Found found =
      search::FindOrdersOnce(problem, effort, limits.searched_letters, limits.kept);
  Plan ordered = search::PlanOf(*plan, found.words);
  for (Action& action : ordered.actions) {
    const auto place = rules.places.find(action.kind);
    action.place = place == rules.places.end() ? rules.place : place->second;
  }
  plan->first = std::move(ordered.first);
  plan->actions = std::move(ordered.actions);
  plan->costs = rules.costs;
  plan->searched = {rules.search.objective, found.value, found.bound};
  return true;
}

}  // namespace stringline
