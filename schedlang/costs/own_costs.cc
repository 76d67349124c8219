#include "schedlang/costs/own_costs.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/host_copies.h"

namespace stringline {
namespace {

// The bytes of the moved values that live on a host or on another rank, over the link; empty if
// either is not known.
std::vector<int64_t> OverLink(const Plan& plan, const OwnLinks& links, const OwnAction& row,
                              const CostModel& costs) {
  const Values moved = (row.gives | row.frees) & kOwnValues;
  bool on_host = false, away = false;
  ForEachOf(moved, [&](StageValue value) {
    on_host = on_host || IsOnHost(value);
    away = away || IsAway(value);
  });
  const int64_t bandwidth = on_host ? links.host_bandwidth : links.bandwidth;
  std::vector<int64_t> times;
  if (on_host == away || bandwidth == 0 || costs.memory.empty()) return times;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    int64_t bytes = 0;
    ForEachOf(moved, [&](StageValue value) {
      if (IsOnHost(value) || IsAway(value)) bytes += costs.memory[s][ClassOf(value)];
    });
    const int64_t sharers =
        on_host ? SharersOf(plan, plan.stages[s].rank, links.host_sharing) : int64_t{1};
    const double seconds = static_cast<double>(bytes * sharers) / static_cast<double>(bandwidth);
    times.push_back(std::llround(seconds * 1e9) + (away ? costs.hop : 0));
  }
  return times;
}

// Copies to other ranks take the times of all links alike.
absl::Status CheckLinksOf(const OwnAction& row, const OwnLinks& links) {
  if (links.of_some.empty() || !MovesAway(row)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(links.of_some, ": ", row.name,
                   " of the schedule's own copies to another rank, too, over whichever link; give ",
                   row.name, " a time"));
}

}  // namespace

bool MovesAway(const OwnAction& row) {
  bool away = false;
  ForEachOf((row.gives | row.frees) & kOwnValues,
            [&away](StageValue value) { away = away || IsAway(value); });
  return away;
}

void DropOwnKeys(const Plan& plan, UnknownKeys* unknown) {
  std::erase_if(*unknown, [&plan](const auto& entry) {
    absl::string_view name = entry.first;
    const std::vector<Edge>& edges = plan.graph.edges();
    const bool of_edge = std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
      return !plan.graph.is_chain() && EdgeKey(edge) == name;
    });
    return of_edge || plan.rows.Find(name) != nullptr ||
           (absl::ConsumePrefix(&name, "memory.") &&
            (ReadRowValue(plan.rows, name) & kOwnValues) != 0);
  });
}

absl::Status CheckNoneLeft(const UnknownKeys& unknown) {
  return unknown.empty() ? absl::OkStatus() : absl::InvalidArgumentError(unknown.begin()->second);
}

absl::Status AddOwnCosts(const Plan& plan, const OwnLinks& links, const CostsOfKey& costs_of,
                         CostModel* costs) {
  for (const OwnAction& row : plan.rows.actions) {
    std::vector<int64_t>& times = costs->own.by_stage[static_cast<size_t>(row.kind)];
    SL_ASSIGN_OR_RETURN(times, costs_of(row.name));
    if (times.empty() && links.is_usual) {
      times = IsOwnNetwork(row.kind) ? std::vector<int64_t>(plan.stages.size(), 0) : costs->forward;
    }
    if (times.empty() && IsCopy(row.kind)) {
      SL_RETURN_IF_ERROR(CheckLinksOf(row, links));
      times = OverLink(plan, links, row, *costs);
    }
    const auto listed =
        std::find_if(plan.actions.begin(), plan.actions.end(),
                     [&row](const Action& action) { return action.kind == row.kind; });
    if (times.empty() && listed != plan.actions.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the schedule performs ", Print(plan, *listed), ", but there is no cost for ", row.name,
          IsCopy(row.kind) ? ", nor a bandwidth and the bytes that it copies" : ""));
    }
    times.resize(plan.stages.size(), 0);
  }
  return absl::OkStatus();
}

}  // namespace stringline
