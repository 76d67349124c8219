// stringline sim --for: how long a step takes for many parameters, and for many schedules. All
// points are listed first and simulated on all cores into one vector, by schedule and point. Table,
// plot and JSON read that.
#include <algorithm>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/clock.h"
#include "schedlang/base/status.h"
#include "tools/command.h"
#include "tools/found_file.h"
#include "tools/json.h"
#include "tools/open_source.h"
#include "tools/progress.h"
#include "tools/requests.h"
#include "tools/sim_sweep.h"
#include "tools/sweep.h"
#include "tools/view/plot.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// Findings about one of the files.
struct BrokenFile {
  Source source;
  Diagnostics findings;
};

struct SimSweepReport {
  std::vector<SweptSchedule> schedules;
  SweepPoints points;
  std::vector<SweptStep> steps;
  double elapsed_s = 0;

  const SweptStep& At(size_t schedule, size_t point) const {
    return steps[schedule * points.size() + point];
  }
  // "M=8", "P=4 M=8": the values of a point.
  std::string NameOf(size_t point) const {
    std::string name;
    for (size_t i = 0; i < points.names.size(); ++i) {
      absl::StrAppend(&name, i == 0 ? "" : " ", points.names[i], "=", points.at(point)[i]);
    }
    return name;
  }
};

// The file's schedule; nothing, and *broken, if it cannot be read.
absl::StatusOr<std::optional<SweptSchedule>> LoadSwept(const std::string& path,
                                                       const std::string& name,
                                                       std::optional<BrokenFile>* broken) {
  if (HoldsParameters(KindOfFile(path))) {
    return absl::InvalidArgumentError(
        path + ": a plan holds its parameters already; --for is for schedules");
  }
  SL_ASSIGN_OR_RETURN(Source source, OpenSource(path));
  Diagnostics findings;
  std::optional<ast::File> file = ParseWithUses(&source, &findings);
  if (!file) {
    *broken = BrokenFile{std::move(source), std::move(findings)};
    return std::nullopt;
  }
  const auto& all = file->schedules;
  const auto found =
      name.empty() ? all.end() - 1 : std::find_if(all.begin(), all.end(), [&name](const auto& s) {
        return s.name.text == name;
      });
  if (found == all.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no schedule '", name, "'"));
  }
  std::string shown(found->name.text);
  return SweptSchedule{*std::move(file), name, std::move(shown), nullptr};
}

// A name that no schedule has as a parameter is a mistake.
absl::Status CheckNames(const std::vector<SweptSchedule>& schedules,
                        const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const SweptSchedule& swept : schedules) {
    for (const std::string& name : ParameterNames(swept)) known.insert(name);
  }
  for (const std::string& name : names) {
    if (known.count(name) > 0) continue;
    const std::string close =
        ClosestName(name, std::vector<std::string>(known.begin(), known.end()));
    return absl::InvalidArgumentError(
        absl::StrCat("no schedule has a parameter '", name, "'",
                     close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
  }
  return absl::OkStatus();
}

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

Json SweptAsJson(const SimSweepReport& report) {
  Json points = Json::array();
  for (size_t p = 0; p < report.points.size(); ++p) {
    Json point = {{"parameters", Json::object()}, {"schedules", Json::array()}};
    for (size_t i = 0; i < report.points.names.size(); ++i) {
      point["parameters"][report.points.names[i]] = report.points.at(p)[i];
    }
    for (size_t s = 0; s < report.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      Json entry = {{"schedule", report.schedules[s].name}};
      if (step.state == SweptStep::State::kSimulated) {
        entry["makespan_us"] = Microseconds(step.makespan_ns);
        entry["bubble"] = step.bubble;
        entry["busiest_bubble"] = step.busiest_bubble;
        entry["idlest_bubble"] = step.idlest_bubble;
        entry["span_bubble"] = step.span_bubble;
        entry["peak_activations"] = step.peak_activations;
        entry["actions"] = step.actions;
        entry["stages"] = step.stages;
      } else {
        entry[step.state == SweptStep::State::kRefused ? "refused" : "wrong"] = step.message;
      }
      point["schedules"].push_back(std::move(entry));
    }
    points.push_back(std::move(point));
  }
  return {{"ok", true},
          {"points", std::move(points)},
          {"elapsed_s", report.elapsed_s},
          {"steps_per_second", static_cast<double>(report.steps.size()) / report.elapsed_s}};
}

absl::StatusOr<int> RunSimSweep(const Flags& flags, const Output& output) {
  SimSweepReport report;
  for (const std::string& path : flags.files) {
    std::optional<BrokenFile> broken;
    SL_ASSIGN_OR_RETURN(std::optional<SweptSchedule> swept,
                        LoadSwept(path, flags.schedule, &broken));
    if (broken) return ShowFindings(output, output.err, broken->findings, broken->source);
    swept->kept = std::make_shared<FoundFile>(path, FoundFile::UseOf(flags.again));
    report.schedules.push_back(*std::move(swept));
  }
  std::vector<SweepRange> ranges;
  std::vector<std::string> names;
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    names.push_back(range.name);
    ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(const std::vector<Parameter> fixed, ParseParameters(flags.parameters));
  for (const Parameter& parameter : fixed) names.push_back(parameter.name);
  SL_RETURN_IF_ERROR(CheckNames(report.schedules, names));
  for (const SweptSchedule& swept : report.schedules) {
    SL_RETURN_IF_ERROR(CheckAllGiven(swept.file, swept.schedule, names));
  }
  SL_ASSIGN_OR_RETURN(report.points, Enumerate(ranges, fixed));
  SL_ASSIGN_OR_RETURN(const CostRequest request, CostRequestOf(flags));
  SL_ASSIGN_OR_RETURN(const StepCosts costs, FindCosts(request));
  const int64_t start_ns = NowNs();
  {
    Progress progress(output, "simulating steps", report.schedules.size() * report.points.size());
    SL_ASSIGN_OR_RETURN(
        report.steps,
        SimulateAll(report.schedules, fixed, report.points, costs, LayoutOf(flags),
                    std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
                    [&progress] { progress.Add(); }));
  }
  report.elapsed_s = static_cast<double>(NowNs() - start_ns) / 1e9;
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
  if (!costs.spec.IsOfModel()) PrintUnequalPoint(report, output.out);
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
