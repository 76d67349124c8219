// The actions of a body are counted by role and direction; a weight gradient is owed by an I and
// paid by a W. Bodies that together do equally much of everything and owe nothing may repeat once
// more.
#include "schedlang/write/microbatch_growth.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace stringline::search {
namespace {

constexpr int64_t kLargestStep = 64;

struct Amounts {
  std::map<std::pair<int, ActionKind>, int64_t> done;  // by role and F, B or R; an I counts as B
  std::map<int, int64_t> owed;                         // weight gradients by role; kOldest: of any
};

void AddBody(const std::vector<int>& body, const std::vector<Sign>& signs, const OrderUse& orders,
             bool is_bare, Amounts* amounts) {
  for (const int number : body) {
    for (const SignPart& part : signs[static_cast<size_t>(number)]) {
      if (IsCollective(part.kind)) continue;
      if (part.kind == ActionKind::kWeightGradient) {
        --amounts->owed[part.role];
        continue;
      }
      const bool input = part.kind == ActionKind::kInputGradient;
      ++amounts->done[{part.role, input ? ActionKind::kBackward : part.kind}];
      const bool leaves = part.role == kFromOrder
                              ? orders.leaves_weight && part.kind == ActionKind::kBackward
                              : part.kind == ActionKind::kInputGradient;
      if (leaves) ++amounts->owed[is_bare ? kOldest : part.role];
    }
  }
}

bool IsEven(const Amounts& amounts, int64_t step) {
  return std::all_of(amounts.done.begin(), amounts.done.end(),
                     [&](const auto& done) { return done.second == step; }) &&
         std::all_of(amounts.owed.begin(), amounts.owed.end(),
                     [](const auto& owed) { return owed.second == 0; });
}

bool CanGrow(const SharedPhase& phase, const SharedPhases& shared) {
  const int64_t a = phase.count.At(shared.first), b = phase.count.At(shared.end - 1);
  return std::min(a, b) >= 1 && std::max(a, b) >= 2;
}

}  // namespace

Growth GrowthOf(const SharedPhases& shared, const std::vector<Sign>& signs,
                const OrderUse& orders) {
  const size_t n = shared.phases.size();
  bool is_bare = false;
  Amounts none;  // all actions of the rank, with counts of zero
  std::vector<size_t> by_share;
  std::vector<int64_t> share(n, 0);
  for (size_t j = 0; j < n; ++j) {
    const SharedPhase& phase = shared.phases[j];
    AddBody(phase.body, signs, orders, false, &none);
    for (const int sign : phase.body) {
      for (const SignPart& part : signs[static_cast<size_t>(sign)]) {
        if (part.microbatch >= 0) return {};
        is_bare = is_bare || part.role == kOldest;
      }
    }
    share[j] = static_cast<int64_t>(phase.body.size()) *
               (phase.count.At(shared.first) + phase.count.At(shared.end - 1));
    if (CanGrow(phase, shared)) by_share.push_back(j);
  }
  for (auto& [key, amount] : none.done) amount = 0;
  none.owed.clear();
  std::stable_sort(by_share.begin(), by_share.end(),
                   [&](size_t a, size_t b) { return share[a] > share[b]; });
  for (const size_t j : by_share) {
    Amounts amounts = none;
    AddBody(shared.phases[j].body, signs, orders, is_bare, &amounts);
    const int64_t step = amounts.done.empty() ? 0 : amounts.done.begin()->second;
    if (step > 0 && step <= kLargestStep && IsEven(amounts, step)) return {{j}, step};
  }
  // No single body: the largest ones that together do at most a step of everything.
  for (const int64_t step : {1, 2, 3, 4}) {
    Growth growth{{}, step};
    Amounts amounts = none;
    for (const size_t j : by_share) {
      Amounts more = amounts;
      AddBody(shared.phases[j].body, signs, orders, is_bare, &more);
      const bool is_too_much = std::any_of(more.done.begin(), more.done.end(),
                                           [&](const auto& done) { return done.second > step; });
      if (is_too_much) continue;
      amounts = std::move(more);
      growth.phases.push_back(j);
    }
    std::sort(growth.phases.begin(), growth.phases.end());
    if (!growth.phases.empty() && IsEven(amounts, step)) return growth;
  }
  return {};
}

}  // namespace stringline::search
