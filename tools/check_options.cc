#include "tools/check_options.h"

#include "absl/strings/str_cat.h"
#include "executor/build_stages.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/cost_keys.h"

namespace stringline {

CommLayout LayoutOf(const Flags& flags) {
  return ReadCommLayout(flags.layout).value_or(CommLayout::kEdge);
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::StatusOr<int64_t> bytes = ParseInUnit(CostUnit::kBytes, text);
  if (bytes.ok()) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("--memory: ", bytes.status().message()));
}

absl::StatusOr<CheckOptions> LoadCheckOptions(const Flags& flags, const Plan& plan) {
  CheckOptions options;
  options.layout = LayoutOf(flags);
  options.buffers = flags.buffers;
  options.lazy = flags.lazy;
  options.activations = flags.activations;
  if (flags.model.empty()) return options;
  SL_ASSIGN_OR_RETURN(const RunConfig config, ReadRunConfig(flags.model));
  SL_ASSIGN_OR_RETURN(const std::vector<StageProgram> programs, BuildStages(config, plan));
  options.sizes = SizesOf(programs);
  if (!flags.memory.empty()) {
    SL_ASSIGN_OR_RETURN(options.memory, ParseBytes(flags.memory));
  }
  return options;
}

}  // namespace stringline
