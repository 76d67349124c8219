// stringline rehearse: performs a schedule in real time with programs that only take time, and
// compares the times with the simulation. A control beside the run tells if the machine was quiet.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/rehearsal/rehearsal.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/sim/simulate.h"
#include "tools/answers/order_note.h"
#include "tools/answers/slow_note.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"
#include "tools/view/compare.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr double kLongestS = 600;

absl::Status InOption(const char* option, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", status.message()));
}

absl::StatusOr<StepCosts> AskedCosts(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(const CostRequest request, CostRequestOf(flags));
  return FindCosts(request);
}

// The costs of the command line, with messages over the link of --link.
absl::StatusOr<CostModel> LoadLinkedCosts(const Flags& flags, const StepCosts& asked,
                                          const Plan& plan) {
  LinkSpeed link;
  int64_t bytes = 0;
  if (!flags.link.empty()) {
    const absl::StatusOr<LinkSpeed> read = ParseLinkSpeed(flags.link);
    if (!read.ok()) return InOption("--link", read.status());
    link = *read;
  }
  if (!flags.message.empty()) {
    const absl::StatusOr<int64_t> read = ParseWithUnit(CostUnit::kBytes, flags.message);
    if (!read.ok()) return InOption("--message", read.status());
    bytes = *read;
  }
  SL_ASSIGN_OR_RETURN(CostModel costs, ResolveCosts(asked, plan));
  if (flags.link.empty()) return costs;
  if (!asked.spec.links.empty() || !asked.slow_links.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--link gives every message one time; leave out ",
        asked.slow_links.empty() ? asked.spec.links[0].place
                                 : absl::StrCat("--slow ", Print(asked.slow_links[0].link))));
  }
  return WithLink(plan, std::move(costs), link, bytes);
}

// A rehearsal takes real time: a missing `us` must not cost hours.
absl::Status CheckLength(const Plan& plan, const CostModel& costs,
                         const RehearsalSettings& settings) {
  SL_ASSIGN_OR_RETURN(const Timeline simulated,
                      Simulate(plan, RehearsedCosts(plan, costs), settings.layout));
  const int64_t step_ns = MeasureBubbles(simulated).makespan_ns;
  // Each with its control.
  if (2 * static_cast<double>(step_ns) * settings.steps < kLongestS * 1e9) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("one step would take ", PrintTime(step_ns), ", and there are ", settings.steps,
                   " with a control each; a rehearsal happens in real time and may last ten "
                   "minutes: try shorter costs, "
                   "or --steps 1"));
}

// "the prediction is right: off by no more than 3 %", or why nothing is said.
std::string PrintVerdict(const RehearsalJudgement& judgement) {
  switch (judgement.verdict) {
    case RehearsalVerdict::kRight:
      return absl::StrFormat("the prediction is right: off by no more than %.0f %%",
                             100 * kMostMisprediction);
    case RehearsalVerdict::kWrong:
      return absl::StrFormat("the prediction is wrong: off by more than %.0f %%",
                             100 * kMostMisprediction);
    case RehearsalVerdict::kDisturbed:
      break;
  }
  return absl::StrFormat(
      "the machine was disturbed, so this says nothing of the prediction: a control was off by "
      "more than %.1f %%",
      100 * kMostDisturbance);
}

constexpr const char* kVerdicts[] = {"right", "wrong", "disturbed"};  // by RehearsalVerdict

void PrintRehearsal(const Rehearsal& rehearsal, const Output& output) {
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = TerminalWidth();
  picture.colors = ChooseColors("auto", is_terminal);
  output.out << Compare(rehearsal.measured, rehearsal.simulated, picture);
  const RehearsalJudgement judgement = Judge(rehearsal);
  output.out << absl::StreamFormat("control, computations alone: %s, off by %+.2f %%\n%s\n",
                                   PrintTime(rehearsal.control_ns), 100 * judgement.disturbance,
                                   PrintVerdict(judgement));
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
  const RehearsalJudgement judgement = Judge(rehearsal);
  Json steps = Json::array(), controls = Json::array();
  for (const int64_t ns : rehearsal.makespans_ns) steps.push_back(Microseconds(ns));
  for (const int64_t ns : rehearsal.controls_ns) controls.push_back(Microseconds(ns));
  return {{"ok", true},
          {"schedule", rehearsal.measured.schedule},
          {"parameters", ParametersAsJson(rehearsal.measured.parameters)},
          {"measured_us", Microseconds(measured.makespan_ns)},
          {"measured_bubble", measured.rate},
          {"simulated_us", Microseconds(simulated.makespan_ns)},
          {"simulated_bubble", simulated.rate},
          {"misprediction", judgement.misprediction},
          {"steps_us", std::move(steps)},
          {"control_us", Microseconds(rehearsal.control_ns)},
          {"controls_us", std::move(controls)},
          {"reconstructed", ReconstructionAsJson(rehearsal.measured)},
          {"disturbance", judgement.disturbance},
          {"verdict", kVerdicts[static_cast<int>(judgement.verdict)]}};
}

}  // namespace

int RunRehearsal(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  const absl::Status own_way = RefuseIssued(*session, "a rehearsal");
  if (!own_way.ok()) return Fail(output, own_way.message());
  const absl::StatusOr<StepCosts> asked = AskedCosts(flags);
  if (!asked.ok()) return Fail(output, asked.status().message());
  const absl::StatusOr<CostModel> costs = LoadLinkedCosts(flags, *asked, *session->plan);
  if (!costs.ok()) return Fail(output, costs.status().message());
  session->plan = CheckedPlan(*std::move(session->plan), {.layout = LayoutOf(flags)},
                              &session->diagnostics, costs->collectives);
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  const Plan& plan = *session->plan;
  RehearsalSettings settings;
  settings.layout = LayoutOf(flags);
  if (flags.steps > 0) settings.steps = flags.steps;
  const absl::Status length = CheckLength(plan, *costs, settings);
  if (!length.ok()) return Fail(output, length.message());
  const absl::StatusOr<Rehearsal> rehearsal = Rehearse(plan, *costs, settings);
  if (!rehearsal.ok()) return Fail(output, rehearsal.status().message());
  if (!flags.timeline_out.empty()) {
    const absl::Status written = WriteAsked(output, flags.timeline_out, Print(rehearsal->measured));
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    Json json = RehearsalAsJson(*rehearsal);
    AddOrderedFor(plan, *costs, &json);
    AddSlow(*asked, &json);
    WriteJson(output.out, json);
  } else {
    PrintRehearsal(*rehearsal, output);
    const std::string note = OrderNote(plan, *costs);
    if (!note.empty()) output.out << note << "\n";
    const std::string slow = SlowNote(*asked);
    if (!slow.empty()) output.out << slow << "\n";
  }
  return kOk;
}

}  // namespace stringline
