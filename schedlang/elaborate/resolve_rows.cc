// Rows are resolved in the order of the text: an action names values above it. The ranks of values
// on other ranks are known only when the stages are.
#include "schedlang/elaborate/resolve_rows.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/per_stage.h"

namespace stringline {
namespace {

// "saved, stash and input"
std::string ListInWords(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

Home HomeOf(const ast::OwnValue& value) {
  if (value.home == "host") return Home::kHost;
  if (value.home == "each") return Home::kEachRank;
  return value.home == "rank" ? Home::kOtherRank : Home::kStage;
}

void Bad(Span span, std::string text, Diagnostics* diagnostics) {
  diagnostics->Add(Code::kBadRule, span, std::move(text));
}

// The words of an effect -> the action's values.
bool AddEffect(const ast::OwnAction& action, const ast::OwnAction::Effect& effect,
               const Program& program, OwnAction* row, Diagnostics* diagnostics) {
  Values* const into = effect.word.text == "needs"   ? &row->needs
                       : effect.word.text == "gives" ? &row->gives
                                                     : &row->frees;
  for (const auto& [value, stage] : effect.rows) {
    if (stage.text != action.stage.text) {
      Bad(stage.span,
          absl::StrCat("the values of an action are those of its stage: '", value.text, " ",
                       action.stage.text, "'"),
          diagnostics);
      return false;
    }
    const Values values = ReadRowValue(program.rows, value.text);
    if (values == 0) {
      std::vector<std::string> names;
      for (const OwnValue& own : program.rows.values) names.push_back(own.name);
      diagnostics->Add(
          Code::kUnknownName, value.span,
          absl::StrCat("there is no value '", value.text, "'; there are ",
                       ListInWords(NamesOfBuiltIn()),
                       names.empty() ? ", and those of a 'value' above"
                                     : absl::StrCat(", and ", absl::StrJoin(names, ", "))));
      return false;
    }
    if (*into & values) {
      Bad(value.span, absl::StrCat("'", value.text, "' is named twice"), diagnostics);
      return false;
    }
    const Values may = into == &row->gives   ? MayGive()
                       : into == &row->frees ? MayFree()
                                             : ~Values{0};
    if (values & ~(may | kOwnValues)) {
      Bad(value.span,
          absl::StrCat("an own action ", effect.word.text, " no '", value.text,
                       "': of the built-in values only ", ListInWords(NamesOfBuiltIn(may))),
          diagnostics);
      return false;
    }
    *into |= values;
  }
  return true;
}

}  // namespace

void ResolveRow(const ast::OwnValue& value, ExpressionResolver* expressions, Program* program,
                Diagnostics* diagnostics) {
  if (!IsValueName(value.name.text) || ReadRowValue(program->rows, value.name.text) != 0) {
    diagnostics->Add(Code::kRedefined, value.name.span,
                     absl::StrCat("'", value.name.text, "' is a value already; built in are ",
                                  ListInWords(NamesOfBuiltIn())));
    return;
  }
  const Home home = HomeOf(value);
  const auto next = NextValue(program->rows, home);
  if (!next) {
    Bad(value.name.span,
        absl::StrCat("a schedule has at most ", MostOwnAt(home), " values of this kind"),
        diagnostics);
    return;
  }
  if (value.rank) {
    program->own_values.push_back(
        {program->rows.values.size(), expressions->ResolveByStage(value.stage, *value.rank)});
  } else {
    expressions->CheckStageName(value.stage);
  }
  program->rows.values.push_back({value.name.text, *next, {}, value.name.span});
}

void ResolveRow(const ast::OwnAction& action, Program* program, Diagnostics* diagnostics) {
  OwnAction row{.name = action.name.text, .span = action.name.span};
  if (!IsActionName(row.name)) {
    Bad(action.name.span, NoActionName(row.name), diagnostics);
    return;
  }
  if (program->rows.Find(row.name) != nullptr) {
    diagnostics->Add(Code::kRedefined, action.name.span,
                     absl::StrCat("there is an action '", row.name, "' already"));
    return;
  }
  const std::optional<RowLane> lane =
      action.lane ? ReadRowLane(action.lane->text) : std::optional<RowLane>(RowLane::kCompute);
  if (!lane) {
    Bad(action.lane->span,
        absl::StrCat("'", action.lane->text, "' is no lane: compute, network, copy_out or copy_in"),
        diagnostics);
    return;
  }
  const auto kind = NextAction(program->rows, *lane);
  if (!kind) {
    Bad(action.name.span,
        absl::StrCat("a schedule has at most ", MostOwnOn(*lane), " actions of its own on ",
                     NameOf(*lane)),
        diagnostics);
    return;
  }
  row.kind = *kind;
  row.by = action.by == "each" ? By::kEachRank : action.by == "all" ? By::kAllRanks : By::kStage;
  if (row.by == By::kAllRanks && IsCopy(row.kind)) {
    Bad(action.name.span, "all ranks begin together on compute or network; a copy is of one rank",
        diagnostics);
    return;
  }
  for (const ast::OwnAction::Effect& effect : action.effects) {
    if (!AddEffect(action, effect, *program, &row, diagnostics)) return;
  }
  if (row.by == By::kStage && ((row.needs | row.gives | row.frees) & kOfEachRank)) {
    Bad(action.name.span,
        absl::StrCat("'", row.name, "' is done by the stage's rank, and a value on each rank is ",
                     "given and freed by all: 'by each rank' or 'with all ranks'"),
        diagnostics);
    return;
  }
  SetEffects(&row);
  program->rows.actions.push_back(std::move(row));
}

bool FitRows(const Program& program, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  const auto bad = [&](Span span, std::string text) {
    diagnostics->Add(Code::kBadRule, span, std::move(text)).where = PrintParameters(*plan);
    return false;
  };
  plan->rows = program.rows;
  const int64_t ranks = plan->parameters.front().value;
  if (!plan->rows.empty() && ranks >= kMostRanksOfRows) {
    return bad(plan->header, absl::StrCat("a schedule with own actions has less than ",
                                          kMostRanksOfRows, " ranks"));
  }
  for (const OwnValueStep& step : program.own_values) {
    OwnValue& value = plan->rows.values[step.value];
    if (!plan->pipes.empty()) {
      return bad(value.span, "a value on another rank needs a schedule without pipes");
    }
    const auto take = [&](int32_t node, int64_t rank) {
      if (rank < 0 || rank >= ranks) {
        return bad(program.nodes[node].span,
                   absl::StrCat("rank ", rank, " does not exist: the ranks are 0 .. ", ranks - 1,
                                evaluator->ValuesIn(node)));
      }
      value.ranks.push_back(static_cast<int32_t>(rank));
      return true;
    };
    const int stages = static_cast<int>(plan->stages.size());
    if (!ForEachValue(step.rank, stages, evaluator, take)) return false;
  }
  return true;
}

const OwnAction* FindOwnAction(const ast::Part& part, const Program& program,
                               Diagnostics* diagnostics) {
  const OwnAction* const row = program.rows.Find(part.name);
  if (row != nullptr) return row;
  std::vector<std::string> names;
  for (const OwnAction& own : program.rows.actions) names.push_back(own.name);
  const std::string close = ClosestName(part.name, names);
  const std::string last =
      names.empty() ? "D and U" : absl::StrCat("D, U and ", absl::StrJoin(names, ", "));
  diagnostics->Add(
      Code::kUnknownStatement, part.span,
      absl::StrCat("'", part.name, "' begins no statement; ",
                   close.empty() ? absl::StrCat("the actions are F, B, I, W, R, ", last)
                                 : absl::StrCat("did you mean '", close, "'?")));
  return nullptr;
}

void CheckRows(const Program& program, Diagnostics* diagnostics) {
  if (program.rows.empty()) return;
  for (const Step& step : program.rank) {
    if (step.kind != Step::Kind::kTighten) continue;
    diagnostics->Add(Code::kMisplaced, step.span,
                     "'tighten' moves no own actions, and this schedule has some: leave it out");
  }
  if (program.mode == RankMode::kSequence || program.mode == RankMode::kTimetable) return;
  const Span span = program.rows.actions.empty() ? program.rows.values.front().span
                                                 : program.rows.actions.front().span;
  diagnostics->Add(Code::kMisplaced, span,
                   "own actions stand in a rank block that lists actions, or in a timetable; this "
                   "schedule's block puts them in order by itself");
}

}  // namespace stringline
