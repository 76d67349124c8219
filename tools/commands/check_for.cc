// stringline check --for: the same question for many parameters at once.

#include <atomic>

#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "tools/answers/check_sweep.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

absl::StatusOr<int> RunSweep(const Flags& flags, const Output& output) {
  SweepQuestion question;
  question.schedules = {{.file = flags.file, .schedule = flags.schedule, .again = flags.again}};
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    question.ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(question.fixed, ParametersOf(flags));
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(const std::optional<Sweep> sweep, ListSweep(question, &broken));
  if (!sweep) return ShowFindings(output, output.out, broken->findings, broken->source);

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
  std::atomic<bool> steps = false;   // a plan has several, or updates
  std::atomic<bool> window = false;  // a plan is in ready order
  const auto prove = [&](const Plan& plan, Diagnostics* diagnostics) {
    if (HasSteps(plan)) steps = true;
    if (plan.window > 0) window = true;
    return CheckedPlan(plan, options, diagnostics, collectives).has_value();
  };
  const int64_t start_ns = NowNs();
  absl::StatusOr<CheckedSweep> result;
  {
    Progress progress(output, "checking plans", sweep->plans());
    result = CheckAll(*sweep, prove, /*threads=*/0, [&progress] {
      progress.Add();
      return true;
    });
  }
  if (!result.ok()) return result.status();
  CheckSweepReport report{*sweep, question.ranges, *result, {}};
  report.elapsed_s = static_cast<double>(NowNs() - start_ns) / 1e9;
  for (const Rule& rule : Rules()) {
    if (rule.code == Code::kUpdates && !steps) continue;
    if (rule.code == Code::kReadyOrder && !window) continue;
    if (Applies(rule, options)) report.proven.push_back(rule.name);
  }
  if (output.json) {
    WriteJson(output.out, CheckSweepAsJson(report));
  } else {
    PrintCheckSweep(report, output.out);
  }
  return result->first_wrong ? kFindings : kOk;
}

}  // namespace

int RunCheckFor(const Flags& flags, const Output& output) {
  const absl::StatusOr<int> status = RunSweep(flags, output);
  return status.ok() ? *status : Fail(output, status.status().message());
}

}  // namespace stringline
