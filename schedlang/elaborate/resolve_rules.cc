// Every rule must stand in an allowed place, and only once. Checks that involve several rules wait
// for the end of the block.
#include "schedlang/elaborate/resolve_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/elaborate/layout.h"
#include "schedlang/elaborate/standing.h"

namespace stringline {
namespace {

// Costs other than those of actions.
struct CostRow {
  const char* key;
  CostOf of;
};
constexpr CostRow kCostRows[] = {{"p2p", CostOf::kMessage},
                                 {"microbatch", CostOf::kMicrobatch},
                                 {"saved_for_I", CostOf::kSavedForInput},
                                 {"saved_for_W", CostOf::kSavedForWeight},
                                 {"stash", CostOf::kStash},
                                 {"input", CostOf::kInput}};

CostOf CostOfKey(absl::string_view key) {
  for (const CostRow& row : kCostRows) {
    if (key == row.key) return row.of;
  }
  return CostOf::kAction;
}

}  // namespace

std::optional<Layout> ResolveLayout(const ast::Name& name, bool or_any, Diagnostics* diagnostics) {
  if (const std::optional<Layout> layout = LayoutNamed(name.text)) return layout;
  std::vector<std::string> names = LayoutNames();
  if (or_any) names.push_back("any");
  const std::string closest = ClosestName(name.text, names);
  diagnostics->Add(
      Code::kUnknownLayout, name.span,
      absl::StrCat("there is no layout '", name.text, "'",
                   closest.empty() ? absl::StrCat("; there are ", absl::StrJoin(names, ", "))
                                   : absl::StrCat("; did you mean '", closest, "'?")));
  return std::nullopt;
}

ActionKind KindOfLetter(char letter) {
  int kind = 0;
  while (PrintedKind(static_cast<ActionKind>(kind)) != absl::string_view(&letter, 1)) ++kind;
  return static_cast<ActionKind>(kind);
}

bool RuleResolver::MayStand(Modes modes, Span span, absl::string_view what, bool directly) {
  return StandsOrFind(directly, span, what, kInRank, diagnostics_) &&
         InModeOrFind(modes, program_.mode, span, what, diagnostics_);
}

// Appends a statement that may stand once, directly in a rank block of these kinds; null after a
// finding.
Step* RuleResolver::Rule(Step::Kind kind, Modes modes, Span span, absl::string_view what,
                         bool directly, std::vector<Step>* steps) {
  if (!MayStand(modes, span, what, directly)) return nullptr;
  if (!OnceOrFind(&seen_[kind], span, what, diagnostics_)) return nullptr;
  return Append(kind, span, steps);
}

Step* RuleResolver::Append(Step::Kind kind, Span span, std::vector<Step>* steps) {
  steps->push_back({.kind = kind, .span = span});
  return &steps->back();
}

void RuleResolver::AddKind(const ast::Name& letter, Step* step) {
  const ActionKind kind = KindOfLetter(letter.text[0]);
  if (std::count(step->kinds.begin(), step->kinds.end(), kind) > 0) {
    diagnostics_->Add(Code::kRedefined, letter.span,
                      absl::StrCat("'", letter.text, "' is named a second time"));
  }
  step->kinds.push_back(kind);
}

void RuleResolver::AddPlace(Span span, Step* step) {
  step->nodes.push_back(static_cast<int32_t>(program_.places.size()));
  program_.places.push_back(span);
}

void RuleResolver::Resolve(const ast::Tighten& tighten, bool directly, std::vector<Step>* steps) {
  Rule(Step::Kind::kTighten, {RankMode::kTimetable}, tighten.span, "'tighten'", directly, steps);
}

void RuleResolver::Resolve(const ast::Fill& fill, bool directly, std::vector<Step>* steps) {
  Rule(Step::Kind::kFill, {RankMode::kTimetable}, fill.span, "'fill'", directly, steps);
}

void RuleResolver::Resolve(const ast::Hold& hold, bool directly, std::vector<Step>* steps) {
  Step* step = Rule(Step::Kind::kHold, {RankMode::kGreedy}, hold.span, "'hold'", directly, steps);
  if (step == nullptr) return;
  step->span = hold.most.span;
  step->node = expressions_.Resolve(hold.most);
}

void RuleResolver::Resolve(const ast::Prefer& prefer, bool directly, std::vector<Step>* steps) {
  Step* step = Rule(Step::Kind::kPrefer, {RankMode::kGreedy, RankMode::kSearch}, prefer.span,
                    "'prefer'", directly, steps);
  if (step == nullptr) return;
  for (const ast::Name& letter : prefer.letters) {
    AddKind(letter, step);
    AddPlace(letter.span, step);
  }
  prefers_ = step->kinds;
  if (std::count(prefers_.begin(), prefers_.end(), ActionKind::kRecompute) > 0) {
    program_.prefers_remaking = prefer.span;
  }
  prefer_span_ = prefer.span;
}

CostStep RuleResolver::ResolveCost(const ast::Name& key, const ast::PerStage& value, Step* step) {
  CostStep cost{.of = CostOfKey(key.text), .span = key.span};
  cost.value = expressions_.ResolvePerStage(value);
  const std::string name = absl::StrCat("'", key.text, "'");
  if (cost.of == CostOf::kAction) {
    AddKind(key, step);
    cost.kind = step->kinds.back();
    return cost;
  }
  const bool is_first = OnceOrFind(&seen_costs_[cost.of], key.span, name, diagnostics_);
  if (cost.of == CostOf::kInput) program_.input = key.span;
  const bool is_one = !value.is_list && !value.variable;
  if (cost.of == CostOf::kMessage) {
    if (!is_first || is_one) return cost;
    diagnostics_->Add(Code::kBadRule, key.span,
                      "'p2p' is one cost, of every message between two ranks");
  } else if (cost.of == CostOf::kMicrobatch) {
    InModeOrFind({RankMode::kGreedy}, program_.mode, key.span, name, diagnostics_);
    if (!is_first || !is_one) return cost;
    diagnostics_->Add(Code::kBadRule, key.span,
                      "'microbatch' tells microbatches apart: 'm -> …', or a list with a factor "
                      "for each");
  } else {
    InModeOrFind({RankMode::kSearch}, program_.mode, key.span, name, diagnostics_);
  }
  return cost;
}

void RuleResolver::Resolve(const ast::Costs& costs, bool directly, std::vector<Step>* steps) {
  Step* step = Rule(Step::Kind::kCosts, {RankMode::kGreedy, RankMode::kSearch}, costs.span,
                    "'costs'", directly, steps);
  if (step == nullptr) return;
  for (const auto& [key, value] : costs.rows) step->costs.push_back(ResolveCost(key, value, step));
  costed_ = step->kinds;
}

void RuleResolver::Resolve(const ast::Minimize& minimize, bool directly, std::vector<Step>* steps) {
  Step* step = Rule(Step::Kind::kMinimize, {RankMode::kSearch}, minimize.span, "'minimize'",
                    directly, steps);
  if (step != nullptr) step->text = minimize.objective.text;
}

void RuleResolver::Resolve(const ast::Within& within, bool directly, std::vector<Step>* steps) {
  if (!MayStand({RankMode::kSearch}, within.span, "'within'", directly)) return;
  if (!OnceOrFind(&seen_[Step::Kind::kWithin], within.span,
                  "'within'; a rank is given one limit, of activations or of memory",
                  diagnostics_)) {
    return;
  }
  Step* step = Append(Step::Kind::kWithin, within.most.span, steps);
  step->text = within.limited.text;
  step->node = expressions_.Resolve(within.most);
  if (within.limited.text == "memory") within_memory_ = within.span;
}

void RuleResolver::Resolve(const ast::Pairs& pairs, bool directly, std::vector<Step>* steps) {
  if (!MayStand({RankMode::kSearch}, pairs.span, "'pairs'", directly)) return;
  const ActionKind back = KindOfLetter(pairs.letters[1].text[0]);
  const bool is_pair = pairs.letters[0].text == "F" &&
                       (back == ActionKind::kBackward || back == ActionKind::kInputGradient);
  if (!is_pair) {
    diagnostics_->Add(Code::kBadRule, pairs.letters[0].span,
                      absl::StrCat("what a search pairs is 'F & B', or 'F & I', and not '",
                                   pairs.letters[0].text, " & ", pairs.letters[1].text, "'"));
    return;
  }
  const std::string what = absl::StrCat("'pairs F & ", pairs.letters[1].text, "'");
  if (!OnceOrFind(&pairs_[back], pairs.span, what, diagnostics_)) return;
  Step* step = Append(Step::Kind::kPairs, pairs.span, steps);
  step->kinds = {ActionKind::kForward, back};
  if (!pairs.cost) return;
  CostStep cost{.span = pairs.span, .value = expressions_.ResolvePerStage(*pairs.cost)};
  step->costs.push_back(std::move(cost));
}

void RuleResolver::Resolve(const ast::Offload& offload, bool directly, std::vector<Step>*) {
  if (!MayStand({RankMode::kSearch}, offload.span, "'offload'", directly)) return;
  if (!OnceOrFind(&offload_, offload.span, "'offload'", diagnostics_)) return;
  program_.offload = {offload.kind == "all", offload.kind == "any", offload.span};
}

void RuleResolver::Resolve(const ast::Iterations& iterations, bool directly,
                           std::vector<Step>* steps) {
  Step* step = Rule(Step::Kind::kIterations, {RankMode::kSearch}, iterations.span, "'iterations'",
                    directly, steps);
  if (step == nullptr) return;
  step->span = iterations.count.span;
  step->node = expressions_.Resolve(iterations.count);
}

// The number of layers and places must be known before costs are read.
void RuleResolver::CheckBeforeCosts(Span span, absl::string_view what) {
  std::optional<Span> before = seen_[Step::Kind::kCosts];
  for (const auto& [back, pair] : pairs_) {
    if (!before) before = pair;
  }
  if (!before) return;
  diagnostics_
      ->Add(Code::kMisplaced, span,
            absl::StrCat(what, " stands before 'costs' and 'pairs': it says what they are of"))
      .notes.push_back({*before, "they are here", ""});
}

PlacingStep RuleResolver::ResolvePlacing(const ast::Place::Row& row) {
  PlacingStep out{.span = row.layout.span};
  const bool any = row.layout.text == "any";
  if (!any) out.layout = ResolveLayout(row.layout, /*or_any=*/true, diagnostics_);
  if (!row.turns) return out;
  out.stages_per_rank = expressions_.Resolve(*row.turns);
  if (any || (out.layout && StagesPerRankOf(*out.layout).is_fixed)) {
    diagnostics_->Add(Code::kBadRule, row.turns->span,
                      absl::StrCat("'", row.layout.text,
                                   "' takes no number: only 'loop' and "
                                   "'wave' have stages of a rank to choose"));
  }
  return out;
}

void RuleResolver::Resolve(const ast::Place& place, bool directly, std::vector<Step>* steps) {
  Step* step =
      Rule(Step::Kind::kPlace, {RankMode::kSearch}, place.span, "'place'", directly, steps);
  if (step == nullptr) return;
  program_.place = place.span;
  CheckBeforeCosts(place.span, "'place'");
  for (const ast::Place::Row& row : place.rows) step->places.push_back(ResolvePlacing(row));
  for (const ast::Place::Row& row : place.rows) {
    if (row.layout.text != "any" || place.rows.size() == 1) continue;
    diagnostics_->Add(Code::kBadRule, row.layout.span, "'any' stands alone: it is all of them");
  }
}

void RuleResolver::Resolve(const ast::Layers& layers, bool directly, std::vector<Step>* steps) {
  Step* step =
      Rule(Step::Kind::kLayers, {RankMode::kSearch}, layers.span, "'layers'", directly, steps);
  if (step == nullptr) return;
  program_.layers = layers.span;
  CheckBeforeCosts(layers.span, "'layers'");
  step->span = layers.count.span;
  step->node = expressions_.Resolve(layers.count);
}

// Costs beside which another one is taken for granted would give orders for numbers that nobody
// wrote: the block gives the cost of every kind that it uses, or of none.
void RuleResolver::CheckCosts() {
  const bool no_prefer = prefers_.empty();
  if (costed_.empty() || (no_prefer && program_.mode == RankMode::kGreedy)) return;
  const auto is_given = [this](ActionKind kind) {
    return std::count(costed_.begin(), costed_.end(), kind) > 0;
  };
  const bool halves = is_given(ActionKind::kInputGradient) && is_given(ActionKind::kWeightGradient);
  std::vector<std::string> missing;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
    const bool known = is_given(kind) || (kind == ActionKind::kBackward && halves);
    if (Uses(kind) && !known) missing.emplace_back(PrintedKind(kind));
  }
  if (missing.empty()) return;
  const std::string names = absl::StrJoin(missing, " and ");
  Diagnostic& finding = diagnostics_->Add(
      Code::kMissingPart, *seen_[Step::Kind::kCosts],
      no_prefer ? absl::StrCat("the costs lack ", names,
                               ", which a search may use where no 'prefer' names kinds")
                : absl::StrCat("the costs lack ", names, ", which 'prefer' names"));
  if (!no_prefer) finding.notes.push_back({prefer_span_, "it is here", ""});
}

void RuleResolver::CheckBlock() {
  CheckCosts();
  if (program_.mode == RankMode::kGreedy && !seen_[Step::Kind::kPrefer]) {
    diagnostics_->Add(Code::kMissingPart, program_.mode_span,
                      "the greedy block lacks 'prefer', the kinds of actions it performs");
  }
  if (program_.mode == RankMode::kSearch) CheckSearch();
}

bool RuleResolver::Uses(ActionKind kind) const {
  return prefers_.empty() || std::count(prefers_.begin(), prefers_.end(), kind) > 0;
}

// Checks of a search that need no values.
void RuleResolver::CheckSearch() {
  if (!prefers_.empty() && Uses(ActionKind::kRecompute)) {
    diagnostics_->Add(Code::kBadRule, prefer_span_,
                      "a search places no R: where a stage recomputes, its B or I begins with its "
                      "F again");
  }
  const bool whole = Uses(ActionKind::kBackward);
  const bool input = Uses(ActionKind::kInputGradient);
  const bool weight = Uses(ActionKind::kWeightGradient);
  const char* lacks = !Uses(ActionKind::kForward) ? "F"
                      : input != weight  ? (input ? "W, which an I needs" : "I, of which a W is")
                      : !whole && !input ? "B, nor I and W"
                                         : nullptr;
  if (lacks != nullptr) {
    diagnostics_->Add(Code::kBadRule, prefer_span_, absl::StrCat("'prefer' names no ", lacks));
  }
  for (const auto& [back, span] : pairs_) {
    if (!span || Uses(back)) continue;
    diagnostics_
        ->Add(Code::kBadRule, *span,
              absl::StrCat("pairs with ", PrintedKind(back), ", which 'prefer' leaves out"))
        .notes.push_back({prefer_span_, "it is here", ""});
  }
  const bool is_held = seen_costs_[CostOf::kSavedForInput] ||
                       seen_costs_[CostOf::kSavedForWeight] || seen_costs_[CostOf::kStash];
  if (!within_memory_ || is_held) return;
  diagnostics_->Add(Code::kMissingPart, *within_memory_,
                    "nothing says what a microbatch of a stage holds: 'costs saved_for_W 1' and so "
                    "on");
}

}  // namespace stringline
