#include "tools/lsp/hover.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/session.h"
#include "schedlang/sim/ready_order.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "schedlang/text/words.h"
#include "tools/view/terminal.h"

namespace stringline {
namespace {

constexpr size_t kMostActionsShown = 64;  // per rank
constexpr int kMostRanks = 16;

const Plan* PlanAt(const NameTable& names, const TextAnalysis& analysis, uint32_t offset) {
  const int32_t schedule = names.ScheduleAt(offset);
  if (schedule < 0 || static_cast<size_t>(schedule) >= analysis.schedules.size()) return nullptr;
  const auto& plan = analysis.schedules[static_cast<size_t>(schedule)].plan;
  return plan ? &*plan : nullptr;
}

std::string InCode(absl::string_view text) { return absl::StrCat("```\n", text, "\n```\n"); }

// "rank 0: 0F0 0F1&0B0 …": the actions of every rank picked by `wanted`; groups stay whole.
template <typename Wanted>
std::string RankLines(const Plan& plan, Wanted wanted) {
  std::vector<std::string> lines;
  for (int r = 0; r < plan.ranks(); ++r) {
    const auto actions = plan.of(RankId(r));
    std::vector<std::string> words;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].joined) continue;
      const auto group = GroupAt(actions, i);
      if (!std::any_of(group.begin(), group.end(), wanted)) continue;
      if (words.size() == kMostActionsShown) {
        words.push_back("…");
        break;
      }
      words.push_back(PrintGroup(plan, actions, i));
    }
    if (words.empty()) continue;
    if (r >= kMostRanks) {
      lines.push_back("…");
      break;
    }
    lines.push_back(absl::StrCat("rank ", r, ": ", absl::StrJoin(words, " ")));
  }
  return absl::StrJoin(lines, "\n");
}

std::string Titled(const Plan& plan, const std::string& lines) {
  return absl::StrCat("With ", PrintParameters(plan), ":\n", InCode(lines));
}

// The actions performed by the statement's letter at `span`.
std::string PerformedAt(const Plan& plan, Span span) {
  const std::string lines = RankLines(
      plan, [&](const Action& action) { return SpanOf(plan, action).begin == span.begin; });
  return lines.empty() ? "" : Titled(plan, lines);
}

void AppendPicture(const Plan& plan, std::string* text) {
  const std::string picture = PictureText(plan);
  if (!picture.empty()) absl::StrAppend(text, InCode(picture));
}

std::string WordText(const Token& token, const WordRow& word, const Plan* plan) {
  std::string text = absl::StrCat(word.meaning, "\n\n");
  if (plan == nullptr) return text;
  const bool is_action = word.sort == WordSort::kLetter || IsFurtherLetter(word.word);
  if (is_action) absl::StrAppend(&text, PerformedAt(*plan, token.span));
  if (token.text == "schedule" || token.text == "rank") AppendPicture(*plan, &text);
  if (token.text == "rank") {
    absl::StrAppend(&text, Titled(*plan, RankLines(*plan, [](const Action&) { return true; })));
  }
  return text;
}

std::string NameText(const Source& source, const DefinedName& name, const Plan* plan) {
  const int line = source.Locate(name.span.begin).line;
  std::string text =
      absl::StrCat(SortOf(name.sort), ", line ", line, ":\n", DefinitionText(source, name));
  if (plan == nullptr) return text;
  if (name.sort == NameSort::kSchedule) AppendPicture(*plan, &text);
  const std::string value = ValueText(source, name, *plan);
  if (!value.empty()) {
    absl::StrAppend(&text, "With ", PrintParameters(*plan), ": ", value, "\n");
  }
  return text;
}

// The value of the name on the rank (-1: of the schedule), or nothing.
std::optional<int64_t> AskFor(const Source& source, const DefinedName& name, const Plan& plan,
                              int rank) {
  std::string text(source.text());
  const std::string condition =
      rank < 0 ? "" : absl::StrCat(name.rank_variable, " != ", rank, " or ");
  text.insert(name.whole.end, absl::StrCat(name.ends_with_semicolon ? " " : "; ", "require ",
                                           condition, name.text, " != ", name.text, " \"value\";"));
  Diagnostics findings;
  const std::optional<ast::File> file = Parse(Source("", std::move(text)), &findings);
  if (!file) return std::nullopt;
  Elaborate(*file, plan.schedule, plan.parameters, &findings, kTypingLimits);
  for (const Diagnostic& finding : findings.findings()) {
    if (finding.code != Code::kRequire || finding.text.rfind("value, with ", 0) != 0) continue;
    const std::string before = absl::StrCat(" ", name.text, " = ");
    const size_t at = finding.text.find(before);
    int64_t value = 0;
    if (at == std::string::npos) continue;
    const std::string rest = finding.text.substr(at + before.size());
    if (absl::SimpleAtoi(rest.substr(0, rest.find(',')), &value)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string DefinitionText(const Source& source, const DefinedName& name) {
  constexpr size_t kLongest = 300;
  absl::string_view line =
      absl::StripAsciiWhitespace(source.Line(source.Locate(name.span.begin).line));
  if (line.size() <= kLongest) return InCode(line);
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return InCode(absl::StrCat(line.substr(0, end), "…"));
}

std::string PictureText(const Plan& plan) {
  constexpr int kColumns = 96;
  Diagnostics findings;
  const std::optional<Plan> checked = CheckedPlan(plan, {}, &findings);
  if (!checked) return "";
  const absl::StatusOr<CostModel> costs = CostsFor({}, *checked);
  if (!costs.ok()) return "";
  absl::StatusOr<Timeline> step =
      checked->window == 0
          ? Simulate(*checked, *costs)
          : Simulate(LoweredPlan(PerformedAt(*checked, *costs), CommLayout::kEdge), *costs);
  if (!step.ok()) return "";
  return std::string(absl::StripAsciiWhitespace(Draw(*step, {.width = kColumns})));
}

std::string ValueText(const Source& source, const DefinedName& name, const Plan& plan) {
  if (name.sort == NameSort::kParameter) {
    for (const Parameter& parameter : plan.parameters) {
      if (parameter.name == name.text) return absl::StrCat(parameter.value);
    }
  }
  if (name.sort == NameSort::kRankVariable) return absl::StrCat("0 .. ", plan.ranks() - 1);
  if (name.sort != NameSort::kValue) return "";
  if (name.rank_variable.empty()) {
    const auto value = AskFor(source, name, plan, -1);
    return value ? absl::StrCat(*value) : "";
  }
  std::vector<std::string> values;
  for (int r = 0; r < std::min(plan.ranks(), kMostRanks); ++r) {
    const auto value = AskFor(source, name, plan, r);
    if (value) values.push_back(absl::StrCat("rank ", r, ": ", *value));
  }
  return absl::StrJoin(values, ", ");
}

std::optional<HoverText> HoverAt(const Source& source, const NameTable& names,
                                 const TextAnalysis& analysis, uint32_t offset) {
  const size_t index = names.TokenAt(offset);
  const Token& token = names.tokens()[index];
  if (token.kind != Token::Kind::kName) return std::nullopt;
  const bool of_lane = index > 0 && names.tokens()[index - 1].text == ".";
  const DefinedName* const name = of_lane ? nullptr : names.Find(index);
  if (name != nullptr) {
    const Plan* const plan = PlanAt(names, analysis, name->span.begin);
    std::string text = NameText(source, *name, plan);
    const bool performs = name->sort == NameSort::kOrder || name->sort == NameSort::kOwnAction;
    if (performs && plan != nullptr) absl::StrAppend(&text, PerformedAt(*plan, token.span));
    return HoverText{token.span, std::move(text)};
  }
  const WordRow* const word = of_lane ? nullptr : FindWord(token.text);
  if (word == nullptr) return std::nullopt;
  return HoverText{token.span, WordText(token, *word, PlanAt(names, analysis, token.span.begin))};
}

}  // namespace stringline
