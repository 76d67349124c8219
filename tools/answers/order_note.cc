#include "tools/answers/order_note.h"

#include <utility>

#include "absl/strings/str_cat.h"
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

std::string OrderNote(const Plan& plan, const CostModel& costs) {
  const std::string note = OrderNote(OrderFitOf(plan, costs));
  if (note.empty()) return note;
  const std::string line = Print(plan.costs);
  return absl::StrCat(note, ": ", absl::StripPrefix(line, "costs "));
}

void AddOrderedFor(const Plan& plan, const CostModel& costs, Json* json) {
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
