#include "schedlang/costs/recompute.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// R makes again what is saved beyond the input, which stays until the last gradient.
void KeepForR(StageMemory* memory) {
  int64_t& for_input = (*memory)[MemoryClass::kSavedForInput];
  for_input = std::max<int64_t>(0, for_input - (*memory)[MemoryClass::kKept]);
}

}  // namespace

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
  if (said == spec.values.end()) {
    return std::vector<int64_t>(plan.recompute.begin(), plan.recompute.end());
  }
  SL_ASSIGN_OR_RETURN(std::vector<int64_t> recomputes,
                      ListOfStages(plan, "recompute", said->second));
  for (size_t s = 0; s < recomputes.size(); ++s) {
    if (recomputes[s] != 0 && recomputes[s] != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("recompute: a stage does (1) or does not (0), not ", recomputes[s]));
    }
    if (recomputes[s] == 1 || !plan.stages[s].remakes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("recompute: stage ", PrintStage(plan.pipes, StageId(static_cast<int32_t>(s))),
                     " cannot be 0, since the schedule performs its R"));
  }
  return recomputes;
}

void AddRecompute(const Plan& plan, const std::vector<int64_t>& recomputes,
                  const std::vector<int64_t>& again, bool says_kept, CostModel* costs) {
  for (size_t s = 0; s < recomputes.size(); ++s) {
    if (recomputes[s] == 0) continue;
    const bool remakes = plan.stages[s].remakes;
    std::vector<int64_t>& times = remakes ? costs->recompute : costs->again;
    times.resize(recomputes.size(), 0);
    if (!again.empty() || !costs->forward.empty()) {
      times[s] = again.empty() ? costs->forward[s] : again[s];
    }
    for (auto* const backs : {&costs->backward, &costs->input_gradient}) {
      if (!backs->empty() && !remakes) (*backs)[s] += times[s];
    }
    if (costs->memory.empty()) continue;
    StageMemory& memory = costs->memory[s];
    int64_t& kept = memory[MemoryClass::kKept];
    if (!says_kept) {
      kept = 0;
      for (const Edge& edge : plan.WholeGraph().In(StageId(static_cast<int32_t>(s)))) {
        const StageId sender = plan.graph.EntryAtFrom(edge);
        kept += costs->memory[sender.value][MemoryClass::kMessages];
      }
    }
    if (remakes) {
      KeepForR(&memory);
    } else {
      KeepInput(std::exchange(kept, 0), &memory);
    }
  }
}

}  // namespace stringline
