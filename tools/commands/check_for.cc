// stringline check --for: the same question for many parameters at once.
#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/found_file.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "tools/answers/sweep_report.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// Null, and an error, if the file lacks the schedule, or the schedule lacks one of the names.
absl::StatusOr<const ast::Schedule*> FindSchedule(const ast::File& file, const std::string& name,
                                                  const std::vector<SweepRange>& ranges) {
  const ast::Schedule* found = name.empty() ? &file.schedules.back() : nullptr;
  for (const ast::Schedule& schedule : file.schedules) {
    if (schedule.name.text == name) found = &schedule;
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the file has no schedule '", name, "'"));
  }
  std::vector<std::string> names;
  for (const ast::Option& option : found->parameters) names.push_back(option.name.text);
  for (const SweepRange& range : ranges) {
    if (std::find(names.begin(), names.end(), range.name) != names.end()) continue;
    const std::string close = ClosestName(range.name, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "--for ", range.name, ": schedule '", found->name.text, "' has no parameter '", range.name,
        "'", close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
  }
  return found;
}

absl::StatusOr<int> RunSweep(const Flags& flags, const Output& output) {
  std::vector<SweepRange> ranges;
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(const std::vector<Parameter> fixed, ParseParameters(flags.parameters));
  SL_ASSIGN_OR_RETURN(Source source, OpenSource(flags.file));
  Diagnostics findings;
  const std::optional<ast::File> file = ParseWithUses(&source, &findings);
  if (!file) return ShowFindings(output, output.out, findings, source);
  SL_ASSIGN_OR_RETURN(const ast::Schedule* schedule, FindSchedule(*file, flags.schedule, ranges));
  std::vector<std::string> names;
  for (const SweepRange& range : ranges) names.push_back(range.name);
  for (const Parameter& parameter : fixed) names.push_back(parameter.name);
  SL_RETURN_IF_ERROR(CheckGiven(*file, flags.schedule, names));
  SL_ASSIGN_OR_RETURN(const SweepPoints points, Enumerate(ranges, fixed));

  if (!flags.model.empty()) {
    return absl::InvalidArgumentError("--model goes with one plan, not with --for");
  }
  SL_ASSIGN_OR_RETURN(const CheckRequest request, CheckRequestOf(flags));
  const CostRequest& costs = request.costs;
  if (!costs.text.empty() || !costs.file.empty() || !costs.copies.mesh.empty()) {
    return absl::InvalidArgumentError("--cost and --costs go with one plan, not with --for");
  }
  SL_ASSIGN_OR_RETURN(const ResolvedCheck check, ResolveCheck(request, Plan{}));
  const CheckOptions& options = check.options;
  CollectiveChoice collectives;
  if (const auto sharding = ReadSharding(costs.copies.sharding)) {
    collectives = CollectivesFor(*sharding, /*copies=*/2);
  }
  const auto prove = [&](const Plan& plan, Diagnostics* diagnostics) {
    return CheckedPlan(plan, options, diagnostics, collectives).has_value();
  };
  const int64_t start_ns = NowNs();
  absl::StatusOr<SweepResult> result;
  {
    Progress progress(output, "checking plans", points.size());
    FoundFile found(flags.file, FoundFile::UseOf(flags.again));
    result = Sweep(
        *file, flags.schedule, fixed, points, prove,
        std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
        [&progress] { progress.Add(); }, &found);
  }
  if (!result.ok()) return result.status();
  const std::string shown = ShownName(source, flags.schedule, schedule->name.text);
  SweepReport report{source, shown, fixed, ranges, points, *result, {}};
  report.elapsed_s = static_cast<double>(NowNs() - start_ns) / 1e9;
  for (const Rule& rule : Rules()) {
    if (Applies(rule, options)) report.proven.push_back(rule.name);
  }
  if (output.json) {
    WriteJson(output.out, SweepAsJson(report));
  } else {
    PrintSweep(report, output.out);
  }
  return result->first_wrong ? kFindings : kOk;
}

}  // namespace

int RunCheckFor(const Flags& flags, const Output& output) {
  if (HoldsParameters(KindOfFile(flags.file))) {
    return Fail(output,
                flags.file + ": a plan holds its parameters already; --for is for schedules");
  }
  const absl::StatusOr<int> status = RunSweep(flags, output);
  return status.ok() ? *status : Fail(output, status.status().message());
}

}  // namespace stringline
