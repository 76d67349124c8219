#include "tools/answers/order_note.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace stringline {

const char* NameOf(OrderFit fit) {
  constexpr const char* kNames[] = {"none", "own", "alike", "changed", "other"};
  return kNames[static_cast<int>(fit)];
}

std::string OrderNote(OrderFit fit) {
  constexpr const char* kNotes[] = {
      "", "at the costs that its order was made for, in ms", "",
      "at the costs that its order was made for, in ms, but for those that are given",
      "its order was made for other costs"};
  return kNotes[static_cast<int>(fit)];
}

namespace {

// The plan's stages that recompute, if these costs heed them; else none.
std::vector<int> RecomputingStages(const Plan& plan, const CostModel& costs) {
  std::vector<int> stages;
  for (size_t s = 0; s < plan.recompute.size() && s < costs.again.size(); ++s) {
    if ((costs.again[s] > 0) != (plan.recompute[s] == 1)) return {};
    if (plan.recompute[s] == 1) stages.push_back(static_cast<int>(s));
  }
  return stages;
}

}  // namespace

std::string OrderNote(const Plan& plan, const CostModel& costs) {
  std::string note = OrderNote(OrderFitOf(plan, costs));
  if (!note.empty()) {
    const std::string line = Print(plan.costs);
    absl::StrAppend(&note, ": ", absl::StripPrefix(line, "costs "));
  }
  const std::vector<int> stages = RecomputingStages(plan, costs);
  if (stages.empty()) return note;
  const std::string names =
      stages.size() == plan.stages.size() ? "all stages recompute"
      : stages.size() == 1                ? absl::StrCat("stage ", stages[0], " recomputes")
                           : absl::StrCat("stages ", absl::StrJoin(stages, ", "), " recompute");
  return absl::StrCat(note, note.empty() ? "" : "; ", names, ", as the schedule says");
}

void AddOrderedFor(const Plan& plan, const CostModel& costs, Json* json) {
  const std::vector<int> stages = RecomputingStages(plan, costs);
  if (!stages.empty()) (*json)["recompute"] = stages;
  const OrderFit fit = OrderFitOf(plan, costs);
  if (fit == OrderFit::kNoCosts) return;
  Json list = Json::object();
  for (size_t k = 0; k < plan.costs.actions.size(); ++k) {
    const auto& values = plan.costs.actions[k];
    if (!values.empty()) list[PrintedKind(static_cast<ActionKind>(k))] = values;
  }
  list["p2p"] = plan.costs.p2p;
  (*json)["ordered_for"] = {{"fit", NameOf(fit)}, {"costs", std::move(list)}};
}

}  // namespace stringline
