#include "schedlang/costs/recompute.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

// While B or I runs, values that were not kept are made again. Those for W stay until W ends.
void KeepInput(int64_t input, StageMemory* memory) {
  int64_t& for_input = (*memory)[MemoryClass::kSavedForInput];
  int64_t& for_weight = (*memory)[MemoryClass::kSavedForWeight];
  if (input >= for_input + for_weight) return;
  memory->remade_for_input = std::max<int64_t>(0, for_input - input);
  memory->remade_for_weight = for_weight;
  (*memory)[MemoryClass::kStash] += for_weight;
  for_input = input;
  for_weight = 0;
}

absl::StatusOr<std::vector<int64_t>> RecomputedStages(const CostSpec& spec, const Plan& plan) {
  const auto said = spec.values.find("recompute");
  if (said == spec.values.end()) return std::vector<int64_t>();
  SL_ASSIGN_OR_RETURN(std::vector<int64_t> recomputes,
                      ListOfStages(plan, "recompute", said->second));
  for (const int64_t value : recomputes) {
    if (value == 0 || value == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("recompute: a stage does (1) or does not (0), not ", value));
  }
  return recomputes;
}

void AddRecompute(const Plan& plan, const std::vector<int64_t>& recomputes, CostModel* costs) {
  if (std::count(recomputes.begin(), recomputes.end(), 1) == 0) return;
  costs->again.assign(recomputes.size(), 0);
  for (size_t s = 0; s < recomputes.size(); ++s) {
    if (recomputes[s] == 0) continue;
    if (!costs->forward.empty()) costs->again[s] = costs->forward[s];
    for (auto* const times : {&costs->backward, &costs->input_gradient}) {
      if (!times->empty()) (*times)[s] += costs->again[s];
    }
    if (costs->memory.empty()) continue;
    const StageId previous = plan.stages[s].previous;
    const int64_t entered =
        previous.valid() ? costs->memory[previous.value][MemoryClass::kMessages] : 0;
    KeepInput(entered, &costs->memory[s]);
  }
}

}  // namespace stringline
