// stringline sim --for: how long a step takes for many parameters, and for many schedules. Table,
// plot and JSON read what step_sweep.h gives.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/progress.h"
#include "tools/requests.h"
#include "tools/step_sweep.h"
#include "tools/view/plot.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

void PrintTable(const SimSweepReport& report, std::ostream& out) {
  size_t width = 6;
  for (size_t p = 0; p < report.points.size(); ++p) {
    width = std::max(width, report.NameOf(p).size());
  }
  out << std::string(width, ' ');
  for (const SweptSchedule& swept : report.schedules) {
    out << absl::StreamFormat("  %30s", swept.name);
  }
  out << "\n" << std::string(width, ' ');
  for (size_t s = 0; s < report.schedules.size(); ++s) {
    out << absl::StreamFormat("  %13s %10s %5s", "makespan", "bubble", "peak");
  }
  out << "\n";
  for (size_t p = 0; p < report.points.size(); ++p) {
    out << absl::StreamFormat("%*s", static_cast<int>(width), report.NameOf(p));
    for (size_t s = 0; s < report.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      if (step.state == SweptStep::State::kSimulated) {
        out << absl::StreamFormat("  %13s %10s %5d", PrintTime(step.makespan_ns),
                                  PrintShare(step.bubble), step.peak_activations);
      } else {
        out << absl::StreamFormat("  %13s %10s %5s",
                                  step.state == SweptStep::State::kRefused ? "refused" : "wrong",
                                  "", "");
      }
    }
    out << "\n";
  }
}

// The first step of every schedule that was refused or wrong, and why.
void PrintRefusals(const SimSweepReport& report, std::ostream& out) {
  for (size_t s = 0; s < report.schedules.size(); ++s) {
    for (size_t p = 0; p < report.points.size(); ++p) {
      const SweptStep& step = report.At(s, p);
      if (step.state == SweptStep::State::kSimulated) continue;
      out << report.schedules[s].name << " " << report.NameOf(p) << ": "
          << (step.state == SweptStep::State::kRefused ? "refused: " : "wrong: ") << step.message
          << "\n";
      break;
    }
  }
}

// Where two schedules of a point have not as many stages, once.
void PrintUnequalPoint(const SimSweepReport& report, std::ostream& out) {
  for (size_t p = 0; p < report.points.size(); ++p) {
    const SweptStep* first = nullptr;
    for (size_t s = 0; s < report.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      if (step.state != SweptStep::State::kSimulated) continue;
      if (first == nullptr) first = &step;
      if (step.stages == first->stages) continue;
      const auto other = static_cast<size_t>(first - report.steps.data()) / report.points.size();
      out << "\n"
          << PrintUnequalWork(report.schedules[other].name, first->stages, report.schedules[s].name,
                              step.stages);
      return;
    }
  }
}

std::vector<PlotLine> LinesOf(const SimSweepReport& report) {
  std::vector<PlotLine> lines;
  for (size_t s = 0; s < report.schedules.size(); ++s) {
    PlotLine line{report.schedules[s].name, {}};
    for (size_t p = 0; p < report.points.size(); ++p) {
      const SweptStep& step = report.At(s, p);
      const bool simulated = step.state == SweptStep::State::kSimulated;
      line.values.push_back(simulated ? std::optional(step.bubble) : std::nullopt);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// One range of rising values is an axis of its own; points of several are steps.
PlotAxis AxisOf(const SimSweepReport& report) {
  PlotAxis axis;
  for (const std::string& name : report.points.names) {
    absl::StrAppend(&axis.name, axis.name.empty() ? "" : ", ", name);
  }
  for (size_t p = 0; p < report.points.size(); ++p) {
    axis.labels.push_back(report.NameOf(p));
    axis.values.push_back(static_cast<double>(report.points.at(p)[0]));
  }
  if (report.points.names.size() > 1 || !std::is_sorted(axis.values.begin(), axis.values.end())) {
    axis.values.clear();
  }
  return axis;
}

absl::StatusOr<int> RunSimSweep(const Flags& flags, const Output& output) {
  SweepRequest request{.layout = LayoutOf(flags)};
  for (const std::string& path : flags.files) {
    request.schedules.push_back({.file = path, .schedule = flags.schedule, .again = flags.again});
  }
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    request.ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(request.fixed, ParseParameters(flags.parameters));
  SL_ASSIGN_OR_RETURN(request.costs, CostRequestOf(flags));
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(std::optional<SimSweepReport> listed, ListedSweep(request, &broken));
  if (!listed) return ShowFindings(output, output.err, broken->findings, broken->source);
  SimSweepReport& report = *listed;
  {
    Progress progress(output, "simulating steps", report.schedules.size() * report.points.size());
    SL_RETURN_IF_ERROR(SimulateListed(
        request,
        [&progress] {
          progress.Add();
          return true;
        },
        &report));
  }
  if (!flags.plot.empty()) {
    SL_RETURN_IF_ERROR(WriteAsked(output, flags.plot, PlotAsSvg(LinesOf(report), AxisOf(report))));
  }
  if (output.json) {
    WriteJson(output.out, SweptAsJson(report));
    return kOk;
  }
  PrintTable(report, output.out);
  output.out << "\nbubble, from the first to the last row\n" << PlotAsText(LinesOf(report));
  PrintRefusals(report, output.out);
  if (!report.costs.spec.IsOfModel()) PrintUnequalPoint(report, output.out);
  return kOk;
}

}  // namespace

int RunSimFor(const Flags& flags, const Output& output) {
  if (MessageRequestOf(flags).issue == MessageIssue::kAsWritten) {
    return Fail(output,
                "--messages as-written is for files that hold sends and receives; --for is "
                "for schedules");
  }
  const absl::StatusOr<int> status = RunSimSweep(flags, output);
  return status.ok() ? *status : Fail(output, status.status().message());
}

}  // namespace stringline
