#include "tools/answers/step_sweep.h"

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/found_file.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "tools/answers/order_note.h"

namespace stringline {
namespace {

// The file's schedule; nothing, and *broken, if the file has findings.
absl::StatusOr<std::optional<SweptSchedule>> LoadSwept(const PlanRequest& request,
                                                       std::optional<BrokenFile>* broken) {
  const std::string& path = request.file;
  const std::string& name = request.schedule;
  if (HoldsParameters(request.text ? KindOfText(path, *request.text) : KindOfFile(path))) {
    return absl::InvalidArgumentError(
        path + ": a plan holds its parameters already; `ranges` is for schedules");
  }
  SL_ASSIGN_OR_RETURN(Source source, request.text ? TextOf(path, *request.text) : OpenSource(path));
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
  std::string shown = ShownName(source, name, std::string(found->name.text));
  return SweptSchedule{*std::move(file), name, std::move(shown),
                       std::make_shared<FoundFile>(path, FoundFile::UseOf(request.again))};
}

// Refuses names that no schedule has as a parameter.
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

}  // namespace

absl::StatusOr<std::optional<SimSweepReport>> ListedSweep(const SweepRequest& request,
                                                          std::optional<BrokenFile>* broken) {
  SimSweepReport report;
  for (const PlanRequest& asked : request.schedules) {
    SL_ASSIGN_OR_RETURN(std::optional<SweptSchedule> swept, LoadSwept(asked, broken));
    if (!swept) return std::nullopt;
    report.schedules.push_back(*std::move(swept));
  }
  std::vector<std::string> names;
  for (const SweepRange& range : request.ranges) names.push_back(range.name);
  for (const Parameter& parameter : request.fixed) names.push_back(parameter.name);
  SL_RETURN_IF_ERROR(CheckNames(report.schedules, names));
  for (const SweptSchedule& swept : report.schedules) {
    SL_RETURN_IF_ERROR(CheckAllGiven(swept.file, swept.schedule, names));
  }
  if (request.ranges.empty()) {
    return absl::InvalidArgumentError("nothing is to be varied: a parameter needs a range");
  }
  SL_ASSIGN_OR_RETURN(report.points, Enumerate(request.ranges, request.fixed));
  SL_ASSIGN_OR_RETURN(report.costs, FindCosts(request.costs));
  return report;
}

absl::Status SimulateListed(const SweepRequest& request, const std::function<bool()>& after_each,
                            SimSweepReport* report) {
  const int64_t start_ns = NowNs();
  SL_ASSIGN_OR_RETURN(
      report->steps,
      SimulateAll(report->schedules, request.fixed, report->points, report->costs, request.layout,
                  std::max(1, static_cast<int>(std::thread::hardware_concurrency())), after_each));
  report->elapsed_s = static_cast<double>(NowNs() - start_ns) / 1e9;
  return absl::OkStatus();
}

Json SweptAsJson(const SimSweepReport& report, SpellField spell) {
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
        if (step.fit != OrderFit::kNoCosts) entry["ordered_for"] = NameOf(step.fit);
      } else {
        entry[step.state == SweptStep::State::kRefused ? "refused" : "wrong"] =
            WithFields(step.message, spell);
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

}  // namespace stringline
