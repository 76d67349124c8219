#include "schedlang/costs/host_copies.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

// The bytes that a D copies of a microbatch.
int64_t CopiedBytes(const Stage& stage, const StageMemory& memory) {
  int64_t bytes = 0;
  ForEachOf(CopiedValues(stage.remakes),
            [&](StageValue value) { bytes += memory[ClassOf(value)]; });
  return bytes;
}

}  // namespace

int64_t SharersOf(const Plan& plan, RankId rank, int64_t sharing) {
  const int64_t before = rank.value / sharing * sharing;
  return std::min(sharing, plan.ranks() - before);
}

absl::Status AddCopies(const Plan& plan, HostCosts host, CostModel* costs) {
  const auto copy =
      std::find_if(plan.actions.begin(), plan.actions.end(),
                   [](const Action& action) { return IsCopy(action.kind) && !IsOwn(action.kind); });
  if (copy == plan.actions.end()) return absl::OkStatus();
  for (size_t s = 0; s < costs->memory.size() && !host.says_bytes; ++s) {
    StageMemory& memory = costs->memory[s];
    memory[MemoryClass::kHosted] = CopiedBytes(plan.stages[s], memory);
  }
  costs->offload = std::move(host.offload);
  if (costs->offload.empty() && host.is_usual) costs->offload = costs->forward;
  if (costs->offload.empty() && host.bandwidth > 0) {
    for (size_t s = 0; s < costs->memory.size(); ++s) {
      const auto bytes = static_cast<double>(costs->memory[s][MemoryClass::kHosted]);
      const int64_t sharers = SharersOf(plan, plan.stages[s].rank, host.sharing);
      costs->offload.push_back(std::llround(bytes * static_cast<double>(sharers) /
                                            static_cast<double>(host.bandwidth) * 1e9));
    }
  }
  if (costs->offload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule performs ", Print(plan, *copy), ", but there is no cost for ",
                     PrintedKind(copy->kind),
                     ": give D, or host.bandwidth and what a microbatch holds "
                     "(memory.saved_for_I, memory.saved_for_W)"));
  }
  costs->fetch = host.fetch.empty() ? costs->offload : std::move(host.fetch);
  return absl::OkStatus();
}

}  // namespace stringline
