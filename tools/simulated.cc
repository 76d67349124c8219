#include "tools/simulated.h"

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/check/check.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/simulate.h"
#include "tools/check_options.h"

namespace stringline {
namespace {

absl::StatusOr<LoadedTimeline> ReadRecorded(const Flags& flags) {
  if (!flags.parameters.empty() || !flags.schedule.empty() || !flags.cost.empty() ||
      !flags.cost_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.file, ": a timeline is drawn as it is; parameters and costs are for schedules"));
  }
  SL_ASSIGN_OR_RETURN(Source source, ReadSource(flags.file));
  LoadedTimeline loaded{.source = std::move(source)};
  loaded.timeline = ReadTimeline(loaded.source, &loaded.diagnostics);
  if (!loaded.diagnostics.empty()) loaded.timeline.reset();
  if (loaded.timeline) loaded.plan = PlanOf(*loaded.timeline);
  return loaded;
}

absl::Status CheckReceiveBuffers(const Plan& plan, int buffers) {
  for (int r = 0; r < plan.ranks() && buffers > 0; ++r) {
    const int needed = ReceiveBuffersOf(plan, RankId(r));
    if (needed <= buffers) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("receive_buffers: ", buffers, " are too few; rank ", r, " needs ", needed));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedTimeline> LoadTimeline(const Flags& flags) {
  if (HasExtension(flags.file, ".timeline")) return ReadRecorded(flags);
  SL_ASSIGN_OR_RETURN(LoadedPlan plan, LoadPlan(flags));
  LoadedTimeline loaded{std::move(plan.source), std::move(plan.diagnostics), std::move(plan.plan)};
  if (!loaded.plan) return loaded;
  SL_ASSIGN_OR_RETURN(loaded.costs, LoadCosts(flags, *loaded.plan));
  const CommLayout layout = LayoutOf(flags);
  if (!loaded.plan->lowered) {
    // Collectives that cost something happen, even where the schedule does not say when.
    const bool collects = !loaded.costs->unshard.empty() || !loaded.costs->reduce.empty();
    loaded.plan = Lower(collects ? AddCollectives(*loaded.plan) : *loaded.plan, layout);
  }
  CheckOptions options;
  options.layout = layout;
  if (!Check(*loaded.plan, options, &loaded.diagnostics)) {
    loaded.plan.reset();
    return loaded;
  }
  SL_RETURN_IF_ERROR(CheckReceiveBuffers(*loaded.plan, loaded.costs->receive_buffers));
  SL_ASSIGN_OR_RETURN(loaded.timeline, Simulate(*loaded.plan, *loaded.costs, layout));
  return loaded;
}

Analysis AnalysisOf(const LoadedTimeline& loaded) {
  return Analyze(*loaded.plan, *loaded.timeline, loaded.costs ? loaded.costs->receive_buffers : 0);
}

}  // namespace stringline
