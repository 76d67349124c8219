// stringline sim --for: step times for many parameters, and for many schedules. Table, plot and
// JSON read the result of sim_sweep.h.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"
#include "tools/answers/order_note.h"
#include "tools/answers/sim_sweep.h"
#include "tools/answers/slow_note.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/view/plot.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

void PrintTable(const SimSweepReport& report, std::ostream& out) {
  size_t width = 6;
  for (size_t p = 0; p < report.sweep.points.size(); ++p) {
    width = std::max(width, report.sweep.NameOf(p).size());
  }
  out << std::string(width, ' ');
  for (const SweptSchedule& swept : report.sweep.schedules) {
    out << absl::StreamFormat("  %30s", swept.name);
  }
  out << "\n" << std::string(width, ' ');
  for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
    out << absl::StreamFormat("  %13s %10s %5s", "makespan", "bubble", "peak");
  }
  out << "\n";
  for (size_t p = 0; p < report.sweep.points.size(); ++p) {
    out << absl::StreamFormat("%*s", static_cast<int>(width), report.sweep.NameOf(p));
    for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      if (step.state == SweptStep::State::kSimulated) {
        out << absl::StreamFormat("  %13s %10s %5s", PrintTime(step.makespan_ns),
                                  PrintShare(step.bubble),
                                  PrintActivations(step.slices, step.peak_activations));
      } else {
        out << absl::StreamFormat("  %13s %10s %5s",
                                  step.state == SweptStep::State::kRefused ? "refused" : "wrong",
                                  "", "");
      }
    }
    out << "\n";
  }
}

// The first refused or wrong step of every schedule, and the reason.
void PrintRefusals(const SimSweepReport& report, std::ostream& out) {
  for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
    for (size_t p = 0; p < report.sweep.points.size(); ++p) {
      const SweptStep& step = report.At(s, p);
      if (step.state == SweptStep::State::kSimulated) continue;
      out << report.sweep.schedules[s].name << " " << report.sweep.NameOf(p) << ": "
          << (step.state == SweptStep::State::kRefused ? "refused: " : "wrong: ")
          << WithOptions(step.message) << "\n";
      break;
    }
  }
}

// For every schedule whose order was made for costs: whether these are its own.
void PrintOrderNotes(const SimSweepReport& report, std::ostream& out) {
  for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
    std::set<std::string> notes;
    for (size_t p = 0; p < report.sweep.points.size(); ++p) {
      const std::string note = OrderNote(report.At(s, p).fit);
      if (!note.empty()) notes.insert(note);
    }
    for (const std::string& note : notes) {
      out << "\n" << report.sweep.schedules[s].name << ": " << note << "\n";
    }
  }
}

// A single warning for a point at which two schedules have different numbers of stages.
void PrintUnequalPoint(const SimSweepReport& report, std::ostream& out) {
  for (size_t p = 0; p < report.sweep.points.size(); ++p) {
    const SweptStep* first = nullptr;
    for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      if (step.state != SweptStep::State::kSimulated) continue;
      if (first == nullptr) first = &step;
      if (step.stages == first->stages) continue;
      const auto other =
          static_cast<size_t>(first - report.steps.data()) / report.sweep.points.size();
      out << "\n"
          << PrintUnequalWork(report.sweep.schedules[other].name, first->stages,
                              report.sweep.schedules[s].name, step.stages);
      return;
    }
  }
}

bool Varies(const SweepPoints& points, size_t name) {
  for (size_t p = 1; p < points.size(); ++p) {
    if (points.at(p)[name] != points.at(0)[name]) return true;
  }
  return false;
}

// The parameter along the plot's axis: of those with several values the last.
size_t AxisOf(const SweepPoints& points) {
  size_t axis = points.names.size() - 1;
  for (size_t name = 0; name < points.names.size(); ++name) {
    if (Varies(points, name)) axis = name;
  }
  return axis;
}

// "P=4 V=2": the varying parameters of a point beside the axis.
std::string NameBeside(const SweepPoints& points, size_t axis, size_t point) {
  std::string text;
  for (size_t name = 0; name < points.names.size(); ++name) {
    if (name == axis || !Varies(points, name)) continue;
    absl::StrAppend(&text, " ", points.names[name], "=", points.at(point)[name]);
  }
  return text;
}

// A line for each schedule and for all values beside the axis, so no line joins two such values.
std::vector<PlotLine> LinesOf(const SimSweepReport& report, size_t axis) {
  std::vector<std::string> beside;  // by point
  for (size_t p = 0; p < report.sweep.points.size(); ++p) {
    beside.push_back(NameBeside(report.sweep.points, axis, p));
  }
  std::vector<PlotLine> lines;
  for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
    std::map<std::string, size_t> line_of;
    for (size_t p = 0; p < report.sweep.points.size(); ++p) {
      const auto [found, is_new] = line_of.try_emplace(beside[p], lines.size());
      if (is_new) lines.push_back({absl::StrCat(report.sweep.schedules[s].name, beside[p]), {}});
      const SweptStep& step = report.At(s, p);
      const bool simulated = step.state == SweptStep::State::kSimulated;
      lines[found->second].points.push_back(
          {static_cast<double>(report.sweep.points.at(p)[axis]),
           simulated ? std::optional(step.bubble) : std::nullopt});
    }
  }
  return lines;
}

absl::StatusOr<int> RunSimSweep(const Flags& flags, const Output& output) {
  SimSweepQuestion question{.layout = LayoutOf(flags)};
  for (const std::string& path : flags.files) {
    question.plans.schedules.push_back(
        {.file = path, .schedule = flags.schedule, .again = flags.again});
  }
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    question.plans.ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(question.plans.fixed, ParametersOf(flags));
  SL_ASSIGN_OR_RETURN(question.costs, CostRequestOf(flags));
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(std::optional<SimSweepReport> listed, ListSimSweep(question, &broken));
  if (!listed) return ShowFindings(output, output.err, broken->findings, broken->source);
  SimSweepReport& report = *listed;
  {
    Progress progress(output, "simulating steps", report.sweep.plans());
    SL_RETURN_IF_ERROR(SimulateListed(
        question.layout,
        [&progress] {
          progress.Add();
          return true;
        },
        &report));
  }
  const size_t axis = AxisOf(report.sweep.points);
  const std::string& axis_name = report.sweep.points.names[axis];
  const std::vector<PlotLine> lines = LinesOf(report, axis);
  if (!flags.plot.empty()) {
    SL_RETURN_IF_ERROR(WriteAsked(output, flags.plot, PlotAsSvg(lines, axis_name)));
  }
  if (output.json) {
    WriteJson(output.out, SimSweepAsJson(report, AsOption));
    return kOk;
  }
  PrintTable(report, output.out);
  const std::string slow = SlowNote(report.costs);
  if (!slow.empty()) output.out << slow << "\n";
  output.out << "\nbubble, from the first to the last " << axis_name << "\n" << PlotAsText(lines);
  PrintRefusals(report, output.out);
  PrintOrderNotes(report, output.out);
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
