// stringline compare: two steps side by side, and where their difference comes from.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/difference.h"
#include "tools/command.h"
#include "tools/exports.h"
#include "tools/json.h"
#include "tools/requests.h"
#include "tools/view/terminal.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr size_t kMostRows = 10;

std::string Signed(double ns) {
  const auto whole = static_cast<int64_t>(std::abs(ns) + 0.5);
  return absl::StrCat(whole == 0 ? "" : ns < 0 ? "-" : "+", PrintTime(whole));
}

std::string Time(double ns) { return PrintTime(static_cast<int64_t>(ns + 0.5)); }

void PrintPictures(const Timeline& first, const Timeline& second, const Flags& flags,
                   const Output& output) {
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = flags.width > 0 ? flags.width : TerminalWidth();
  picture.fold = flags.fold;
  picture.lanes = flags.lanes;
  picture.colors = ChooseColors(flags.color, is_terminal);
  for (const Timeline* timeline : {&first, &second}) {
    for (const Event& event : timeline->events) {
      picture.end_ns = std::max(picture.end_ns, event.end_ns);
    }
  }
  picture.legend = false;
  output.out << Draw(first, picture);
  picture.legend = true;
  output.out << Draw(second, picture);
}

void PrintDifference(const Difference& difference, const Timeline& first, const Timeline& second,
                     std::ostream& out) {
  const double change = static_cast<double>(difference.second_ns - difference.first_ns);
  out << absl::StreamFormat(
      "\nfirst  %13s   %s\nsecond %13s   %s\n       %13s   %+.2f %%\n\n",
      PrintTime(difference.first_ns), PrintBubble(MeasureBubbles(first)),
      PrintTime(difference.second_ns), PrintBubble(MeasureBubbles(second)), Signed(change),
      difference.first_ns == 0 ? 0.0 : 100 * change / static_cast<double>(difference.first_ns));
  out << absl::StreamFormat("  %-18s %13s %13s %13s\n", "a rank's average", "first", "second",
                            "difference");
  double sum = 0;
  for (const DifferenceTerm& term : difference.terms) {
    sum += term.change_ns();
    out << absl::StreamFormat("  %-18s %13s %13s %13s\n", term.name, Time(term.first_ns),
                              Time(term.second_ns), Signed(term.change_ns()));
  }
  out << absl::StreamFormat("  %-18s %13s %13s %13s\n", "all", "", "", Signed(sum));
  out << absl::StreamFormat(
      "\n  %d computations are in both; %d only in the first, %d only in the "
      "second\n",
      difference.matched, difference.only_first, difference.only_second);
  if (difference.actions.empty()) return;
  out << absl::StreamFormat("\n  %-10s %6s %13s %13s %13s\n", "each takes", "times", "first",
                            "second", "difference");
  for (size_t i = 0; i < std::min(difference.actions.size(), kMostRows); ++i) {
    const ActionDifference& action = difference.actions[i];
    out << absl::StreamFormat(
        "  %-10s %6d %13s %13s %13s\n",
        absl::StrCat(PrintedKind(action.kind), " ", PrintStage(second.pipes, action.stage)),
        action.count, Time(action.first_ns), Time(action.second_ns), Signed(action.change_ns()));
  }
  if (difference.actions.size() > kMostRows) {
    out << absl::StreamFormat("  … and %d more\n", difference.actions.size() - kMostRows);
  }
}

Json DifferenceAsJson(const Difference& difference, const Timeline& first, const Timeline& second) {
  Json terms = Json::array();
  for (const DifferenceTerm& term : difference.terms) {
    terms.push_back({{"name", term.name},
                     {"first_us", term.first_ns / 1e3},
                     {"second_us", term.second_ns / 1e3},
                     {"difference_us", term.change_ns() / 1e3}});
  }
  Json actions = Json::array();
  for (const ActionDifference& action : difference.actions) {
    actions.push_back({{"kind", PrintedKind(action.kind)},
                       {"stage", PrintStage(second.pipes, action.stage)},
                       {"count", action.count},
                       {"first_us", action.first_ns / 1e3},
                       {"second_us", action.second_ns / 1e3},
                       {"difference_us", action.change_ns() / 1e3}});
  }
  return {{"ok", true},
          {"first_makespan_us", Microseconds(difference.first_ns)},
          {"second_makespan_us", Microseconds(difference.second_ns)},
          {"first_bubble", MeasureBubbles(first).rate},
          {"second_bubble", MeasureBubbles(second).rate},
          {"terms", std::move(terms)},
          {"actions", std::move(actions)},
          {"matched", difference.matched},
          {"only_first", difference.only_first},
          {"only_second", difference.only_second}};
}

// A side of the comparison. Parameters and costs are for those that are simulated.
absl::StatusOr<Session> OpenSide(const std::string& file, const Flags& flags) {
  const FileKind kind = KindOfFile(file);
  if (kind == FileKind::kTimeline) return OpenRecorded(file);
  SL_ASSIGN_OR_RETURN(PlanRequest request, PlanRequestOf(flags));
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostRequestOf(flags));
  request.file = file;
  if (HoldsParameters(kind)) request.parameters.clear();
  return OpenStep(request, costs, MessageRequestOf(flags));
}

// Both are simulated at costs of a stage, and have not as many.
bool DoesUnequalWork(const std::vector<Session>& sides) {
  for (const Session& side : sides) {
    if (side.kind == FileKind::kTimeline || side.costs_of_model) return false;
  }
  return StagesOfModel(*sides[0].plan) != StagesOfModel(*sides[1].plan);
}

}  // namespace

int RunCompare(const Flags& flags, const Output& output) {
  const Flags& other = flags.second_side.empty() ? flags : flags.second_side[0];
  std::vector<std::string> files = flags.files;
  if (&other != &flags) files.insert(files.end(), other.files.begin(), other.files.end());
  if (files.size() != 2) {
    return Fail(output, absl::StrCat("two steps can be compared, not ", files.size()));
  }
  std::vector<Session> sides;
  for (const std::string& file : files) {
    absl::StatusOr<Session> side = OpenSide(file, sides.empty() ? flags : other);
    if (!side.ok()) return Fail(output, side.status().message());
    if (!side->timeline) return ShowFindings(output, output.err, side->diagnostics, side->source);
    if (!side->plan) {
      return Fail(output, file + ": the timeline has stages on two ranks, or on none");
    }
    if (flags.lanes && side->timeline->parts.empty()) {
      return Fail(output, absl::StrCat(file, ": ", kNoParts));
    }
    sides.push_back(*std::move(side));
  }
  const Timeline& first = *sides[0].timeline;
  const Timeline& second = *sides[1].timeline;
  const Difference difference =
      DifferenceOf(first, AnalysisOf(sides[0]), second, AnalysisOf(sides[1]));
  const absl::StatusOr<bool> written = WriteExports(flags, sides);
  if (!written.ok()) return Fail(output, written.status().message());
  if (output.json) {
    Json json = DifferenceAsJson(difference, first, second);
    json["unequal_work"] = DoesUnequalWork(sides);
    WriteJson(output.out, json);
    return kOk;
  }
  if (!*written) PrintPictures(first, second, flags, output);
  PrintDifference(difference, first, second, output.out);
  if (DoesUnequalWork(sides)) {
    output.out << "\n"
               << PrintUnequalWork(first.schedule, StagesOfModel(*sides[0].plan), second.schedule,
                                   StagesOfModel(*sides[1].plan));
  }
  return kOk;
}

}  // namespace stringline
