// stringline compare: two steps side by side, and where their difference comes from.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/own_costs.h"
#include "tools/answers/comparison.h"
#include "tools/answers/exports.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/view/lane_rows.h"
#include "tools/view/terminal.h"

namespace stringline {
namespace {

void PrintPictures(const Timeline& first, const Timeline& second, const Flags& flags,
                   const ShownPart& part, const Output& output) {
  const bool is_terminal = &output.out == &std::cout && isatty(STDOUT_FILENO) != 0;
  Picture picture;
  picture.width = flags.width > 0 ? flags.width : TerminalWidth();
  picture.fold = flags.fold;
  picture.lanes = flags.lanes;
  picture.part = part;
  picture.colors = ChooseColors(flags.color, is_terminal);
  output.out << DrawTogether({&first, &second}, picture);
}

// A side of the comparison. Parameters and costs are for simulated sides.
absl::StatusOr<Session> OpenSide(const std::string& file, const Flags& flags, bool for_both,
                                 const Output& output) {
  const FileKind kind = KindOfFile(file);
  if (kind == FileKind::kTimeline) return OpenRecorded(file);
  SL_ASSIGN_OR_RETURN(PlanRequest request, PlanRequestOf(flags));
  SL_ASSIGN_OR_RETURN(CostRequest costs, CostRequestOf(flags));
  costs.for_several = for_both;
  request.file = file;
  if (HoldsParameters(kind)) request.parameters.clear();
  const Progress progress(output, absl::StrCat("simulating ", file));
  return OpenStep(request, costs, MessageRequestOf(flags));
}

// An error if costs for both sides have a key of own actions and values that neither side has.
absl::Status CheckKeys(const Flags& flags, const std::vector<Session>& sides) {
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostRequestOf(flags));
  SL_ASSIGN_OR_RETURN(StepCosts found, FindCosts(costs));
  for (const Session& side : sides) DropOwnKeys(*side.plan, &found.spec.unless_own);
  SL_RETURN_IF_ERROR(CheckLinksOfSome(found, {&*sides[0].plan, &*sides[1].plan}));
  return CheckNoneLeft(found.spec.unless_own);
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
    absl::StatusOr<Session> side =
        OpenSide(file, sides.empty() ? flags : other, &other == &flags, output);
    if (!side.ok()) return Fail(output, side.status().message());
    if (!side->timeline) return ShowFindings(output, output.err, side->diagnostics, side->source);
    if (!side->plan) {
      return Fail(output, file + ": the timeline has stages on two ranks, or on none");
    }
    if (flags.lanes && !HasLanes(*side->timeline)) {
      return Fail(output, absl::StrCat(file, ": ", kNoLanes));
    }
    sides.push_back(*std::move(side));
  }
  if (&other == &flags) {
    const absl::Status checked = CheckKeys(flags, sides);
    if (!checked.ok()) return Fail(output, checked.message());
  }
  const Timeline& first = *sides[0].timeline;
  const Timeline& second = *sides[1].timeline;
  const Comparison comparison = Compared(sides[0], sides[1]);
  const PictureQuestion asked = PictureQuestionOf(flags);
  const absl::StatusOr<ShownPart> part = ShownPartOf(asked, sides);
  if (!part.ok()) return Fail(output, part.status().message());
  const absl::StatusOr<bool> written = WriteExports(asked, *part, sides, output);
  if (!written.ok()) return Fail(output, written.status().message());
  if (output.json) {
    WriteJson(output.out, ComparisonAsJson(comparison));
    return kOk;
  }
  if (!*written) PrintPictures(first, second, flags, *part, output);
  PrintComparison(comparison, output.out);
  return kOk;
}

}  // namespace stringline
