// stringline report: the uses of a step's time, its distance from a lower bound, and changes that
// would help; of traces what GPUs did in them.
#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tools/answers/kernel_report.h"
#include "tools/answers/step_report.h"
#include "tools/answers/trace_import.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/view/kernel_page.h"

namespace stringline {
namespace {

constexpr const char* kOfTraces[] = {"--step",     "--operator", "--against",
                                     "--counters", "--html",     "--top"};

bool IsOfTraces(const std::string& option) {
  return std::find(std::begin(kOfTraces), std::end(kOfTraces), option) != std::end(kOfTraces);
}

// The first argument that a trace's report does not honour, or that only it does; "" without one.
std::string Misplaced(const Flags& flags, bool of_traces) {
  for (const std::string& argument : flags.arguments) {
    const std::string option = argument.substr(0, argument.find('='));
    if (option.size() < 3 || option.substr(0, 2) != "--" || option == "--json") continue;
    if (IsOfTraces(option) != of_traces) return option;
  }
  return of_traces && !flags.parameters.empty() ? flags.parameters[0] : "";
}

int ReportTraces(const Flags& flags, const Output& output) {
  KernelQuestion question{.paths = {flags.file}, .operator_part = flags.operator_part};
  if (flags.step >= 0) question.step = flags.step;
  if (!flags.against.empty()) question.against = {flags.against};
  const absl::StatusOr<KernelReport> report = [&] {
    Progress progress(output, "reading traces");
    return MakeKernelReport(question);
  }();
  if (!report.ok()) return Fail(output, report.status().message());
  if (!flags.counters.empty()) {
    const absl::Status written = WriteTracesWithCounters(*report, flags.counters);
    if (!written.ok()) return Fail(output, written.message());
  }
  if (!flags.html.empty()) {
    const absl::Status written = WriteAsked(output, flags.html, KernelPage(report->traces));
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    WriteJson(output.out, KernelReportAsJson(*report));
  } else {
    PrintKernelReport(*report, static_cast<size_t>(flags.top), output.out);
  }
  return kOk;
}

int ReportMemory(const Flags& flags, const Output& output) {
  const absl::StatusOr<MemoryTimelineText> told = ReportMemoryTimeline(flags.file);
  if (!told.ok()) return Fail(output, told.status().message());
  if (output.json) {
    WriteJson(output.out, told->json);
  } else {
    output.out << told->text;
  }
  return kOk;
}

int ReportStep(const Flags& flags, const Output& output) {
  const absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  if (!step->plan) {
    return Fail(output, flags.file + ": the timeline has stages on two ranks, or on none");
  }
  JitterRuns jitter{.seed = flags.seed};
  if (flags.runs > 0) jitter.runs = flags.runs;
  const absl::StatusOr<TimeReport> report = [&] {
    std::optional<Progress> progress;
    return MakeReport(*step, jitter, [&](int run) {
      if (run == 0) {
        progress.emplace(output, "simulating steps with jitter", static_cast<size_t>(jitter.runs));
      } else if (run > 0) {
        progress->Add();
      }
      return true;
    });
  }();
  if (!report.ok()) return Fail(output, report.status().message());
  if (output.json) {
    WriteJson(output.out, ReportAsJson(*step, *report));
  } else {
    PrintReport(*step, *report, output.out);
  }
  return kOk;
}

}  // namespace

int RunReport(const Flags& flags, const Output& output) {
  const bool is_memory = IsMemoryTimeline(flags.file);
  const bool is_trace = !is_memory && IsTrace(flags.file);
  const std::string misplaced = Misplaced(flags, is_trace);
  if (!misplaced.empty()) {
    return Fail(output, absl::StrCat(flags.file, ": ", misplaced,
                                     is_trace ? " is not for traces" : " is for traces"));
  }
  if (is_memory && flags.arguments.size() > (output.json ? 2 : 1)) {
    return Fail(output, flags.file + ": a memory timeline is reported without options");
  }
  if (is_memory) return ReportMemory(flags, output);
  return is_trace ? ReportTraces(flags, output) : ReportStep(flags, output);
}

}  // namespace stringline
