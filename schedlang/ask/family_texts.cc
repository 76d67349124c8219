// Families of orders, as texts. Two use building blocks (Qi et al. 2024, "Pipeline Parallelism with
// Controllable Memory"), repeated at an interval. A microbatch takes more slots from some ranks to
// the next, evenly spread over the ranks, so memory grows in small steps.
#include "schedlang/ask/family_texts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/text/format.h"

namespace stringline {
namespace {

// Steps from rank to rank take an odd number of slots on every way: forwards of first stages and
// gradients of second ones are in the slots of one parity, the others in those of the other parity.
constexpr const char* kOddSteps =
    R"(# Building blocks of six slots in a V, at odd steps from rank to rank, repeated.
# `ahead` of the P steps down the V take two slots more than one, and `behind` of those back up;
# beyond P, some take four more. The turns wait `wait` and `rest` times two slots. The more slots,
# the more microbatches are under way: more memory, and a shorter bubble. No two actions ever meet.
schedule found(P, M, ahead = 0, behind = 0, wait = 0, rest = 0) {
  stages 2 * P on v;
  require min(ahead, behind, wait, rest) >= 0 "steps and slots are counted: 0 or more";
  let apart(slot, other) = (slot - other) % 6 == 0 ? slot + 2 : slot;
  let down(r) = r + 2 * (ahead * r / P);
  let up(l)   = l + 2 * (behind * l / P);
  let turn    = down(P - 1) + 1 + 2 * wait;                      # rank P - 1, second stage: F
  let back    = apart(turn + up(P - 1) + 1, 0);                  # rank 0, second stage: I
  let last    = apart(back + down(P - 1) + 1 + 2 * rest, turn);  # rank P - 1, first stage: I

)";

// Steps down the V take two or five slots, and those up one or four: modulo three each way moves
// alike.
constexpr const char* kTwoSteps =
    R"(# Building blocks of six slots in a V, at steps of two slots down and one up, as in V-Half.
# `ahead` of the P steps down the V take three slots more, and `behind` of those back up; the turns
# wait `wait` and `rest` times three slots. The more slots, the more microbatches are under way:
# more memory, and a shorter bubble. No two actions ever meet.
schedule found(P, M, ahead = 0, behind = 0, wait = 0, rest = 0) {
  stages 2 * P on v;
  require min(ahead, behind, wait, rest) >= 0 "steps and slots are counted: 0 or more";
  let apart(slot, other) = (slot - other) % 6 == 0 ? slot + 3 : slot;
  let down(r) = 2 * r + 3 * (ahead * r / P);
  let up(l)   = l + 3 * (behind * l / P);
  let turn    = down(P - 1) + 1 + 3 * wait;           # rank P - 1, second stage: F
  let back    = turn + up(P - 1) + 1 + 3 * rest;      # rank 0, second stage: I
  let last    = apart(back + down(P - 1) + 2, turn);  # rank P - 1, first stage: I

)";

// The ranks of both.
constexpr const char* kBlocksOfRank =
    R"(  rank r timetable {
    let left = P - 1 - r;  # ranks behind this one
    repeat M as m {
      at 6 * m + down(r)         : F r @ m;
      at 6 * m + turn + up(left) : F 2 * P - 1 - r @ m;
      at 6 * m + back + down(r)  : I 2 * P - 1 - r @ m;
      at 6 * m + last + up(left) : I r @ m;
    }
    tighten;
    fill W;
  }
}
)";

// ZB-H1 holds P activations, ZB-H2 2 P - 1.
constexpr const char* kSplitPhases =
    R"(# One forward, one input gradient, and a weight gradient that waits: between ZB-H1 and ZB-H2.
# A rank holds `most` activations. It begins with the forwards that let it wait for none, and as
# many more as `ahead` steps of P from rank to rank ask for; it holds back weight gradients for the
# rest of its memory.
schedule found(P, M, most = P, ahead = 0) {
  require most >= P "no rank may wait for memory: most is P or more";
  stages P on line;

  rank r {
    let left   = P - 1 - r;
    let warmup = min(left + ahead * left / P, most - 1, M);
    let late   = min(most - 1 - warmup, r + ahead * r / P, M);  # weight gradients held back

    repeat warmup { F r }
    repeat M as i {
      if i < M - warmup { F r }
      I r;
      if i >= late      { W }
    }
    repeat late { W }
  }
}
)";

constexpr const char* kWholePhases =
    R"(# 1F1B with a longer warm-up, for messages that take time: between 1F1B and eager 1F1B.
# A rank begins with the forwards that let it wait for none, and as many more as `ahead` steps of P
# from rank to rank ask for, while it holds no more than `most` activations.
schedule found(P, M, most = 2 * P, ahead = 0) {
  stages P on line;

  rank r {
    let left   = P - 1 - r;
    let warmup = min(left + ahead * left / P, most - 1, M);

    repeat warmup     { F r }
    repeat M - warmup { F r; B r }
    repeat warmup     { B r }
  }
}
)";

// The text with whole backwards in the places of input gradients.
std::string WithWhole(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{": I ", ": B "}, {"stage: I\n", "stage: B\n"}, {"    fill W;\n", ""}});
}

// "2 * P on v", for the word of a place.
std::string StagesText(const std::string& place) {
  if (place == "line") return "P on line";
  if (place == "v") return "2 * P on v";
  const size_t space = place.find(' ');
  const std::string layout = place.substr(0, space);
  int turns = 2;
  if (space != std::string::npos && !absl::SimpleAtoi(place.substr(space + 1), &turns)) return "";
  return absl::StrCat(turns, " * P on ", layout);
}

// "costs F 2, I 2, W 1, p2p 1;"; "" where the stages differ, as their number is not known.
std::string GreedyCosts(const OrderCosts& costs, const std::vector<ActionKind>& kinds) {
  std::vector<std::string> parts;
  for (const ActionKind kind : kinds) {
    const std::vector<int64_t>& values = costs.actions[static_cast<size_t>(kind)];
    const std::set<int64_t> all(values.begin(), values.end());
    if (all.size() != 1) return "";
    parts.push_back(absl::StrCat(PrintedKind(kind), " ", *all.begin()));
  }
  if (costs.p2p != 0) parts.push_back(absl::StrCat("p2p ", costs.p2p));
  return absl::StrCat("\n    costs ", absl::StrJoin(parts, ", "), ";");
}

// A rule whose ranks hold fewer microbatches the further they are from the first one.
std::string GreedyText(const FamilyWish& wish, const std::vector<ActionKind>& kinds) {
  const std::string stages = StagesText(wish.place);
  if (stages.empty()) return "";
  std::vector<std::string> names;
  for (const ActionKind kind : kinds) names.emplace_back(PrintedKind(kind));
  return absl::StrCat(
      "# A rule: a rank idles only while it can start nothing.\n"
      "# Of several actions the first kind named is preferred. Rank r holds at most `most`\n"
      "# microbatches, less `less` of P for each rank before it.\n"
      "schedule found(P, M, most = P, less = 0) {\n  stages ",
      stages, ";\n\n  rank r greedy {\n    hold at most max(1, most - less * r / P);\n    prefer ",
      absl::StrJoin(names, ", "), ";", GreedyCosts(wish.costs, kinds), "\n  }\n}\n");
}

void AddFamily(const std::string& name, const std::string& text, std::vector<FamilyText>* texts) {
  if (text.empty()) return;
  absl::StatusOr<FamilyText> open = FamilyTextOf(name, Source(name, text), {});
  if (open.ok()) texts->push_back(*std::move(open));
}

}  // namespace

std::string ValueOfRanks::Text() const {
  std::string text;
  if (times != 0) text = times == 1 ? "P" : absl::StrCat(times, " * P");
  if (times != 0 && by != 1) absl::StrAppend(&text, " / ", by);
  if (text.empty()) return absl::StrCat(plus);
  if (plus != 0) absl::StrAppend(&text, plus > 0 ? " + " : " - ", std::abs(plus));
  return text;
}

absl::StatusOr<FamilyText> FamilyTextOf(const std::string& name, Source source,
                                        const std::vector<Parameter>& fixed) {
  Diagnostics findings;
  std::optional<ast::File> file = ParseWithUses(&source, &findings);
  if (!file) return absl::InvalidArgumentError(Render(findings, source));
  FamilyText open{name, std::move(source), *std::move(file), {}};
  const std::vector<ast::Option>& parameters = open.schedule().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_fixed = std::any_of(fixed.begin(), fixed.end(), [&](const Parameter& one) {
      return one.name == parameters[i].name.text;
    });
    if (parameters[i].value && !is_fixed) open.open.push_back(i);
  }
  return open;
}

std::vector<FamilyText> FamilyTextsFor(const FamilyWish& wish) {
  using Kinds = std::vector<ActionKind>;
  constexpr ActionKind kF = ActionKind::kForward, kB = ActionKind::kBackward,
                       kI = ActionKind::kInputGradient, kW = ActionKind::kWeightGradient;
  std::vector<FamilyText> texts;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    AddFamily(schedule.name, schedule.text, &texts);
  }
  const std::string odd = absl::StrCat(kOddSteps, kBlocksOfRank);
  const std::string two = absl::StrCat(kTwoSteps, kBlocksOfRank);
  for (const bool whole : {false, true}) {
    if (wish.place != "v" || !(whole ? wish.whole : wish.split)) continue;
    AddFamily("blocks at odd steps", whole ? WithWhole(odd) : odd, &texts);
    AddFamily("blocks at steps of two", whole ? WithWhole(two) : two, &texts);
  }
  if (wish.split && wish.place == "line") AddFamily("split phases", kSplitPhases, &texts);
  if (wish.whole && wish.place == "line") AddFamily("whole phases", kWholePhases, &texts);
  std::vector<Kinds> preferences;
  if (wish.split) preferences = {{kI, kF, kW}, {kF, kI, kW}, {kI, kW, kF}};
  if (wish.whole) preferences.insert(preferences.end(), {{kB, kF}, {kF, kB}});
  for (const Kinds& kinds : preferences) {
    AddFamily("greedy rule", GreedyText(wish, kinds), &texts);
  }
  return texts;
}

std::vector<Parameter> ParametersOf(const FamilyText& text, const FamilyChoice& choice,
                                    const std::vector<Parameter>& parameters) {
  int64_t ranks = 0;
  std::vector<Parameter> own;
  for (const Parameter& parameter : parameters) {
    if (parameter.name == "P") ranks = parameter.value;
    for (const ast::Option& option : text.schedule().parameters) {
      if (option.name.text == parameter.name) own.push_back(parameter);
    }
  }
  for (size_t i = 0; i < choice.size(); ++i) {
    if (choice[i]) own.push_back({text.NameOf(i), choice[i]->At(ranks)});
  }
  return own;
}

std::string TextWith(const FamilyText& text, const FamilyChoice& choice) {
  std::string changed(text.source.text());
  const ast::Schedule& schedule = text.schedule();
  const auto replace = [&changed](Span span, const std::string& by) {
    changed.replace(span.begin, span.end - span.begin, by);
  };
  // From behind, so that places before stay where they are.
  for (size_t i = choice.size(); i-- > 0;) {
    if (choice[i]) replace(schedule.parameters[text.open[i]].value->span, choice[i]->Text());
  }
  replace(schedule.name.span, "found");
  Diagnostics findings;
  const std::optional<std::string> laid_out = Format(Source("found.sched", changed), &findings);
  SL_CHECK(laid_out.has_value()) << changed;
  return *laid_out;
}

}  // namespace stringline
