#include "tools/simulated.h"

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
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

}  // namespace

absl::StatusOr<LoadedTimeline> LoadTimeline(const Flags& flags) {
  if (HasExtension(flags.file, ".timeline")) return ReadRecorded(flags);
  SL_ASSIGN_OR_RETURN(LoadedPlan plan, LoadCheckedPlan(flags));
  LoadedTimeline loaded{std::move(plan.source), std::move(plan.diagnostics), std::move(plan.plan)};
  if (!loaded.plan) return loaded;
  SL_ASSIGN_OR_RETURN(loaded.costs, LoadCosts(flags, *loaded.plan));
  SL_ASSIGN_OR_RETURN(loaded.timeline, Simulate(*loaded.plan, *loaded.costs, LayoutOf(flags)));
  return loaded;
}

}  // namespace stringline
