// Tries every permutation of the used kinds as preference, without a limit, with a common limit,
// and with the peak of each rank. Larger plans are not tried: a rule takes some microseconds an
// action.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/orders/greedy.h"
#include "schedlang/write/rank_expression.h"
#include "schedlang/write/schedule_draft.h"
#include "schedlang/write/schedule_lines.h"

namespace stringline::search {
namespace {

// Larger plans are not tried: a rule takes some microseconds an action.
constexpr size_t kMostGreedyActions = 50'000;

// The kinds of the plan's actions; none if no greedy rule can give the plan.
std::vector<ActionKind> KindsOf(const Plan& plan) {
  std::set<ActionKind> kinds;
  for (const Action& action : plan.actions) {
    if (action.joined || !IsCompute(action.kind)) return {};
    kinds.insert(action.kind);
  }
  const bool has_both =
      kinds.count(ActionKind::kBackward) > 0 && kinds.count(ActionKind::kInputGradient) > 0;
  if (has_both || plan.actions.size() > kMostGreedyActions) return {};
  return {kinds.begin(), kinds.end()};
}

// By rank: the most microbatches begun and not finished at once.
std::vector<std::optional<int64_t>> MostHeld(const Plan& plan) {
  std::vector<std::optional<int64_t>> most;
  for (int r = 0; r < plan.ranks(); ++r) {
    std::map<std::pair<int, int>, size_t> last;  // by pipe and microbatch
    const auto actions = plan.of(RankId(r));
    const auto key = [&](const Action& action) {
      return std::pair(plan.stage(action.stage).pipe, action.microbatch.value);
    };
    for (size_t i = 0; i < actions.size(); ++i) last[key(actions[i])] = i;
    std::set<std::pair<int, int>> held;
    size_t peak = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      held.insert(key(actions[i]));
      peak = std::max(peak, held.size());
      if (last[key(actions[i])] == i) held.erase(key(actions[i]));
    }
    most.emplace_back(static_cast<int64_t>(peak));
  }
  return most;
}

// `hold at most`, as text and by rank; "" for no limit.
struct HoldLimit {
  std::string text;
  std::vector<std::optional<int64_t>> by_rank;
};

// No limit, a common limit for all ranks, and a limit for each.
std::vector<HoldLimit> HoldLimitsOf(const Plan& plan) {
  const auto most = MostHeld(plan);
  const std::optional<int64_t> all = *std::max_element(most.begin(), most.end());
  const auto line = AffineThrough(most);
  std::vector<HoldLimit> limits = {
      {"", std::vector<std::optional<int64_t>>(most.size())},
      {line ? WriteAffine(*line, plan.ranks()) : WriteCases(most, "r", plan.ranks()), most}};
  const std::string number = absl::StrCat(*all);
  if (limits[1].text != number) {
    limits.insert(limits.begin() + 1,
                  {number, std::vector<std::optional<int64_t>>(most.size(), all)});
  }
  return limits;
}

bool GivesOrders(const Plan& plan, const std::vector<GreedyRule>& rules, const OrderCosts& costs) {
  for (const ActionKind kind : rules.front().prefer) {
    if (costs.actions[static_cast<size_t>(kind)].empty()) return false;
  }
  std::vector<int64_t> microbatches;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    microbatches.push_back(plan.microbatches_of(StageId(static_cast<int32_t>(s))));
  }
  const GreedyOrder order = OrderGreedily(plan, microbatches, rules, costs);
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto actions = plan.of(RankId(r));
    const std::vector<Action>& made = order.ranks[static_cast<size_t>(r)];
    const auto same = [](const Action& a, const Action& b) {
      return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch;
    };
    if (!std::equal(actions.begin(), actions.end(), made.begin(), made.end(), same)) return false;
  }
  return true;
}

// "costs F 2, B [3, 3, 4], p2p 1;", of the kinds that are used; "" for the default costs.
std::string CostsText(const OrderCosts& costs, const std::vector<ActionKind>& kinds) {
  const bool is_usual = costs.actions == UnitOrderCosts().actions;
  std::vector<std::string> parts;
  for (size_t k = 0; k < costs.actions.size() && !is_usual; ++k) {
    const std::vector<int64_t>& values = costs.actions[k];
    if (std::count(kinds.begin(), kinds.end(), static_cast<ActionKind>(k)) == 0) continue;
    const std::string text = absl::StrJoin(values, ", ");
    parts.push_back(absl::StrCat(PrintedKind(static_cast<ActionKind>(k)), " ",
                                 values.size() == 1 ? text : absl::StrCat("[", text, "]")));
  }
  if (costs.p2p != 0) parts.push_back(absl::StrCat("p2p ", costs.p2p));
  return parts.empty() ? "" : absl::StrCat("costs ", absl::StrJoin(parts, ", "), ";");
}

std::vector<std::string> LinesOfRule(const HoldLimit& limit, const std::vector<ActionKind>& kinds,
                                     const OrderCosts& costs) {
  std::vector<std::string> statements;
  if (!limit.text.empty()) statements.push_back(absl::StrCat("hold at most ", limit.text, ";"));
  const std::string letters = absl::StrJoin(kinds, ", ", [](std::string* out, ActionKind kind) {
    absl::StrAppend(out, PrintedKind(kind));
  });
  statements.push_back(absl::StrCat("prefer ", letters, ";"));
  if (const std::string text = CostsText(costs, kinds); !text.empty()) statements.push_back(text);
  std::vector<std::string> lines = {"  rank r greedy {"};
  for (const std::string& statement : statements) {
    for (std::string& part : BrokenLines(statement, 4)) lines.push_back(std::move(part));
  }
  lines.emplace_back("  }");
  return lines;
}

}  // namespace

std::optional<Draft> DraftGreedy(const Written& written, bool grows) {
  const Plan& plan = *written.plan;
  std::vector<ActionKind> kinds = KindsOf(plan);
  if (kinds.empty()) return std::nullopt;
  std::vector<OrderCosts> all_costs = {UnitOrderCosts()};
  all_costs.insert(all_costs.end(), written.costs.begin(), written.costs.end());
  for (const HoldLimit& limit : HoldLimitsOf(plan)) {
    do {
      std::vector<GreedyRule> rules;
      for (const auto& held : limit.by_rank) rules.push_back({held, kinds});
      for (const OrderCosts& costs : all_costs) {
        if (!GivesOrders(plan, rules, costs)) continue;
        Draft draft{.form = WrittenForm::kGreedy, .lines = LinesOfRule(limit, kinds, costs)};
        if (grows) draft.step = 1;
        return draft;
      }
    } while (std::next_permutation(kinds.begin(), kinds.end()));
  }
  return std::nullopt;
}

}  // namespace stringline::search
