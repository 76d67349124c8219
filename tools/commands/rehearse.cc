// stringline rehearse: performs a schedule in real time with programs that only take time, and
// compares that with the simulation.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/rehearsal.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/cost_keys.h"
#include "schedlang/sim/simulate.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/requests.h"
#include "tools/view/compare.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr double kLongestS = 600;

absl::Status InOption(const char* option, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", status.message()));
}

// The costs of the command line, with messages over the link of --link.
absl::StatusOr<CostModel> LoadLinkedCosts(const Flags& flags, const Plan& plan) {
  LinkSpeed link;
  int64_t bytes = 0;
  if (!flags.link.empty()) {
    const absl::StatusOr<LinkSpeed> read = ParseLinkSpeed(flags.link);
    if (!read.ok()) return InOption("--link", read.status());
    link = *read;
  }
  if (!flags.message.empty()) {
    const absl::StatusOr<int64_t> read = ParseInUnit(CostUnit::kBytes, flags.message);
    if (!read.ok()) return InOption("--message", read.status());
    bytes = *read;
  }
  SL_ASSIGN_OR_RETURN(const CostRequest request, CostRequestOf(flags));
  SL_ASSIGN_OR_RETURN(CostModel costs, CostsFor(request, plan));
  if (flags.link.empty()) return costs;
  return WithLink(plan, std::move(costs), link, bytes);
}

// It happens in real time: nobody wants to wait for hours because of a missing `us`.
absl::Status CheckLength(const Plan& plan, const CostModel& costs,
                         const RehearsalSettings& settings) {
  SL_ASSIGN_OR_RETURN(const Timeline simulated,
                      Simulate(plan, RehearsedCosts(plan, costs), settings.layout));
  const int64_t step_ns = MeasureBubbles(simulated).makespan_ns;
  if (static_cast<double>(step_ns) * settings.steps < kLongestS * 1e9) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "one step would take ", PrintTime(step_ns), ", and there are ", settings.steps,
      "; a rehearsal happens in real time and may last ten minutes: try shorter costs, "
      "or --steps 1"));
}

void PrintRehearsal(const Rehearsal& rehearsal, const Output& output) {
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = TerminalWidth();
  picture.colors = ChooseColors("auto", is_terminal);
  output.out << Compare(rehearsal.measured, rehearsal.simulated, picture);
  if (rehearsal.makespans_ns.size() == 1) return;
  const auto [least, most] =
      std::minmax_element(rehearsal.makespans_ns.begin(), rehearsal.makespans_ns.end());
  output.out << absl::StreamFormat("the median of %d steps, %s to %s\n",
                                   rehearsal.makespans_ns.size(), PrintTime(*least),
                                   PrintTime(*most));
}

Json RehearsalAsJson(const Rehearsal& rehearsal) {
  const Bubbles measured = MeasureBubbles(rehearsal.measured);
  const Bubbles simulated = MeasureBubbles(rehearsal.simulated);
  Json steps = Json::array();
  for (const int64_t ns : rehearsal.makespans_ns) steps.push_back(Microseconds(ns));
  return {{"ok", true},
          {"schedule", rehearsal.measured.schedule},
          {"parameters", ParametersAsJson(rehearsal.measured.parameters)},
          {"measured_us", Microseconds(measured.makespan_ns)},
          {"measured_bubble", measured.rate},
          {"simulated_us", Microseconds(simulated.makespan_ns)},
          {"simulated_bubble", simulated.rate},
          {"misprediction", Misprediction(rehearsal.measured, rehearsal.simulated)},
          {"steps_us", std::move(steps)}};
}

}  // namespace

int RunRehearsal(const Flags& flags, const Output& output) {
  const absl::StatusOr<Session> checked = OpenCheckedPlanOf(flags, output);
  if (!checked.ok()) return Fail(output, checked.status().message());
  if (!checked->plan)
    return ShowFindings(output, output.err, checked->diagnostics, checked->source);
  const absl::StatusOr<CostModel> costs = LoadLinkedCosts(flags, *checked->plan);
  if (!costs.ok()) return Fail(output, costs.status().message());
  RehearsalSettings settings;
  settings.layout = LayoutOf(flags);
  if (flags.steps > 0) settings.steps = flags.steps;
  const absl::Status length = CheckLength(*checked->plan, *costs, settings);
  if (!length.ok()) return Fail(output, length.message());
  const absl::StatusOr<Rehearsal> rehearsal = Rehearse(*checked->plan, *costs, settings);
  if (!rehearsal.ok()) return Fail(output, rehearsal.status().message());
  if (!flags.timeline_out.empty()) {
    const absl::Status written = WriteAsked(output, flags.timeline_out, Print(rehearsal->measured));
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    WriteJson(output.out, RehearsalAsJson(*rehearsal));
  } else {
    PrintRehearsal(*rehearsal, output);
  }
  return kOk;
}

}  // namespace stringline
