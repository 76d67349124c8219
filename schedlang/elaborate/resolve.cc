// A walk over the tree in the order of the text, since a name is known only below its definition.
// The Resolve for each kind of statement checks the statement's place, gives names their slots, and
// appends a step.
#include "schedlang/elaborate/resolve.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/edges.h"
#include "schedlang/elaborate/layout_string.h"
#include "schedlang/elaborate/resolve_expression.h"
#include "schedlang/elaborate/resolve_rows.h"
#include "schedlang/elaborate/resolve_rules.h"
#include "schedlang/elaborate/scope.h"
#include "schedlang/elaborate/standing.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {
namespace {

ActionKind KindAsWritten(const ast::Name& letter) {
  constexpr absl::string_view kLetters = "FBIW";
  return static_cast<ActionKind>(kLetters.find(letter.text[0]));
}

std::vector<Overlap::Part> LaneAsWritten(const std::vector<ast::Overlap::Part>& parts,
                                         const std::vector<ActionKind>& kinds) {
  std::vector<Overlap::Part> lane;
  for (const auto& [place, letter, name] : parts) {
    Overlap::Part& part = lane.emplace_back();
    part.name = std::string(ShortNameOfWord(name.text));
    part.span = {place.text.empty() ? letter.span.begin : place.span.begin, name.span.end};
    if (!place.text.empty()) part.place = PlaceOfMember(place.text, kinds.size());
    if (!letter.text.empty()) {
      part.of = KindAsWritten(letter);
    } else if (part.place < static_cast<int>(kinds.size())) {
      part.of = kinds[part.place];
    }
  }
  return lane;
}

// `overlap F & B { compute { … } network { … } }` as in the plan: the order of the named parts of a
// group (plan/parts.h). Nothing after a finding of CheckOverlap.
std::optional<Overlap> ResolveOverlap(const ast::Overlap& written, absl::Span<const Overlap> others,
                                      Diagnostics* diagnostics) {
  Overlap overlap;
  overlap.span = written.span;
  for (const ast::Name& letter : written.letters) {
    overlap.kinds.push_back(KindAsWritten(letter));
    overlap.kind_spans.push_back(letter.span);
  }
  overlap.by_default = written.semicolon.has_value();
  overlap.compute = LaneAsWritten(written.compute, overlap.kinds);
  overlap.network = LaneAsWritten(written.network, overlap.kinds);
  FindPlaces(&overlap);
  if (!CheckOverlap(overlap, others, diagnostics)) return std::nullopt;
  return overlap;
}

// The place of a statement, from the outside in.
enum class Place : uint8_t { kSchedule, kRank, kLoop, kOrder };

// Copies are searched for stages with known places and layers.
void CheckOffload(const Program& program, Diagnostics* diagnostics) {
  if (!program.offload || (!program.offload->all && !program.offload->any)) return;
  const bool split = program.split && program.split->any;
  if (!split && !program.place) return;
  diagnostics->Add(Code::kMisplaced, program.offload->span,
                   split ? "'offload' and 'split any': a search chooses one of them"
                         : "'offload' and 'place': a search chooses one of them");
}

// The block of a search may leave more open than others.
void CheckChoices(const Program& program, Diagnostics* diagnostics) {
  CheckOffload(program, diagnostics);
  if (program.input && !program.recompute) {
    diagnostics->Add(Code::kMissingPart, *program.input,
                     "'input' is held by stages that recompute, and nothing says which: "
                     "'recompute any;' in the search block");
  }
  if (program.prefers_remaking && !program.recompute) {
    diagnostics->Add(Code::kBadRule, *program.prefers_remaking,
                     "'prefer' names R, and no stage recomputes: 'recompute all;' in the schedule");
  }
  if (!program.recompute) return;
  const RecomputeStep& recompute = *program.recompute;
  if (recompute.any && program.mode != RankMode::kSearch) {
    diagnostics->Add(Code::kMisplaced, recompute.span,
                     "'recompute any' is found by a search, and this schedule has none");
  }
  if (recompute.stages.nodes.empty() || !program.place) return;
  diagnostics->Add(Code::kMisplaced, recompute.span,
                   "'place' leaves open how many stages there are, and this says which of them "
                   "recompute; it may be none, all or any");
}

DerivedStep::Then::What ChangeOf(const ast::Name& word) {
  using What = DerivedStep::Then::What;
  if (word.text == "defer") return What::kDefer;
  return word.text == "recompute" ? What::kRecompute : What::kOffload;
}

std::string NameOf(const ast::Part& part) {
  return part.letter == 0 ? part.name : std::string(1, part.letter);
}

// A finding for a copy or an own action beside others in a group.
void CheckAlone(const ast::Group& group, const ast::Part& part, Diagnostics* diagnostics) {
  if (group.parts.size() == 1) return;
  diagnostics->Add(Code::kMisplaced, part.span,
                   absl::StrCat("'", NameOf(part), "' shares no group: ",
                                part.letter == 0 ? "an own action runs alone"
                                                 : "a copy runs beside computations by itself"));
}

ActionKind KindOf(const ast::Group& group, const ast::Part& part, const Program& program,
                  Diagnostics* diagnostics) {
  if (part.letter == 0) {
    CheckAlone(group, part, diagnostics);
    const OwnAction* const row = FindOwnAction(part, program, diagnostics);
    return row == nullptr ? ActionKind::kForward : row->kind;
  }
  const ActionKind kind = KindOfLetter(part.letter);
  if (RunsAlone(kind)) CheckAlone(group, part, diagnostics);
  return kind;
}

// The order that the part names; -1 after a finding.
int32_t OrderOf(const ast::Part& part, Place place, Scope* scope, Diagnostics* diagnostics) {
  const Symbol* symbol = scope->Find(part.name, part.span);
  if (symbol == nullptr) return -1;
  if (symbol->kind != Symbol::Kind::kOrder) {
    diagnostics->Add(Code::kWrongUse, part.span,
                     absl::StrCat("'", part.name, "' is ", SortOf(*symbol), ", not an order"));
  } else if (place == Place::kOrder) {
    diagnostics->Add(Code::kMisplaced, part.span,
                     "an order is written down from actions, not from another order");
  }
  return symbol->index;
}

ActionKind KindOfCollective(const ast::Collective& collective) {
  if (collective.word.text == "unshard") return ActionKind::kUnshard;
  if (collective.word.text == "update") return ActionKind::kUpdate;
  return collective.word.text == "reshard" ? ActionKind::kReshard : ActionKind::kReduceGrad;
}

// True where a collective may stand; an UPDATE may be in an order, too.
bool StandsIn(Place place, const ast::Collective& collective) {
  return place == Place::kRank || place == Place::kLoop ||
         (place == Place::kOrder && KindOfCollective(collective) == ActionKind::kUpdate);
}

bool StandsAtSlot(const ast::Collective& collective, Diagnostics* diagnostics) {
  if (KindOfCollective(collective) == ActionKind::kUpdate) return true;
  diagnostics->Add(
      Code::kMisplaced, collective.span,
      absl::StrCat("'", collective.word.text, "' stands in the order of a rank, not at a slot"));
  return false;
}

void FindGatheredTwice(Span unshard, Diagnostics* diagnostics) {
  diagnostics->Add(Code::kBadRule, unshard,
                   "'unshard' says when parameters are gathered, so 'unshard ahead' would say "
                   "nothing; leave out one of them");
}

void CheckSplit(const Program& program, Diagnostics* diagnostics) {
  const SplitStep& split = *program.split;
  if (split.any && program.mode != RankMode::kSearch) {
    diagnostics->Add(Code::kMisplaced, split.span,
                     "'split any' is found by a search, and this schedule has none");
  }
  if (split.any && !program.layers) {
    diagnostics->Add(Code::kMissingPart, split.span,
                     "'split any' shares out layers, and nothing says how many there are: "
                     "'layers 24;' in the search block");
  }
  const bool counts = !split.layers.nodes.empty() || !split.layout.empty();
  if (!counts || !program.place) return;
  diagnostics->Add(Code::kMisplaced, split.span,
                   "'place' leaves open how many stages there are, and this split says what "
                   "each of them holds; it may be even, balanced or any");
}

// Without backwards there is no gradient to wait for, to keep values for, or to update with.
void CheckForwardOnly(const Program& program, std::optional<Span> steps,
                      std::optional<Span> versions, Diagnostics* diagnostics) {
  if (!program.forward_only) return;
  const auto find = [&](Span span, const char* what) {
    diagnostics->Add(Code::kMisplaced, span,
                     absl::StrCat(what, " in a schedule that is forward only"));
  };
  if (steps) find(*steps, "'steps' counts updates, of which there are none,");
  if (versions) find(*versions, "'versions' counts updates, of which there are none,");
  if (program.recompute) find(program.recompute->span, "'recompute' is for gradients");
  if (program.mode == RankMode::kGreedy || program.mode == RankMode::kSearch) {
    find(program.mode_span, "orders are found for forwards and backwards; list the forwards");
  }
}

// Orders of several steps are written out, action by action.
void CheckSteps(const Program& program, std::optional<Span> steps, std::optional<Span> pad,
                Diagnostics* diagnostics) {
  if (!steps) return;
  if (pad) diagnostics->Add(Code::kMisplaced, *pad, "'pad' cannot stand beside 'steps'");
  if (program.mode == RankMode::kSequence) return;
  diagnostics->Add(Code::kMisplaced, *steps,
                   "'steps' stands in a schedule whose rank block lists actions in order; without "
                   "it, '--steps 3' performs this order three times");
}

Step::Kind CountOfWord(absl::string_view word) {
  using Kind = Step::Kind;
  constexpr std::pair<absl::string_view, Kind> kWords[] = {
      {"steps", Kind::kSteps},   {"versions", Kind::kVersions}, {"slices", Kind::kSlices},
      {"window", Kind::kWindow}, {"slack", Kind::kSlack},       {"chunks", Kind::kChunks},
      {"unshard", Kind::kAhead}};
  return std::find_if(std::begin(kWords), std::end(kWords),
                      [word](const auto& row) { return row.first == word; })
      ->second;
}

// Orders of slices are written out, too, and chunks cut a microbatch another way. `named`: the
// first action that names its slice.
void CheckSlices(const Program& program, std::optional<Span> slices, std::optional<Span> named,
                 std::optional<Span> chunks, Diagnostics* diagnostics) {
  if (!slices) {
    if (!named) return;
    diagnostics->Add(Code::kMisplaced, *named,
                     "a slice, and 'slices e;' does not say how many there are");
    return;
  }
  if (chunks) diagnostics->Add(Code::kMisplaced, *chunks, "'chunks' cannot stand beside 'slices'");
  if (program.mode == RankMode::kSequence || program.mode == RankMode::kTimetable) return;
  diagnostics->Add(Code::kMisplaced, *slices,
                   "'slices' stands in a schedule whose rank block lists actions, in order or by "
                   "slots: greedy and searched orders are of whole microbatches");
}

// A slack is that of a window, and steps behind each other have one order.
void CheckWindow(std::optional<Span> window, std::optional<Span> slack, std::optional<Span> steps,
                 Diagnostics* diagnostics) {
  if (slack && !window) {
    diagnostics->Add(Code::kMissingPart, *slack,
                     "a 'slack', and no 'window e;' says that the orders are preferences");
  }
  if (window && steps) {
    diagnostics->Add(Code::kMisplaced, *window,
                     "'window' cannot stand beside 'steps': ready order is of one step");
  }
}

// The statements that stand once and have a number, by kind.
using Counts = std::map<Step::Kind, std::optional<Span>>;

void CheckCounts(const Program& program, Counts* counts, std::optional<Span> pad,
                 std::optional<Span> named_slice, Diagnostics* diagnostics) {
  const std::optional<Span> steps = (*counts)[Step::Kind::kSteps];
  CheckSteps(program, steps, pad, diagnostics);
  CheckWindow((*counts)[Step::Kind::kWindow], (*counts)[Step::Kind::kSlack], steps, diagnostics);
  CheckForwardOnly(program, steps, (*counts)[Step::Kind::kVersions], diagnostics);
  CheckSlices(program, (*counts)[Step::Kind::kSlices], named_slice, (*counts)[Step::Kind::kChunks],
              diagnostics);
}

bool SaysEdges(const ast::Schedule& schedule) {
  const std::vector<ast::Statement>& all = schedule.body.statements;
  return std::any_of(all.begin(), all.end(), [](const ast::Statement& statement) {
    return std::holds_alternative<ast::Edges>(statement.node);
  });
}

StagesStep ResolveStages(const ast::Stages& stages, Scope* scope, ExpressionResolver* expressions,
                         Diagnostics* diagnostics) {
  StagesStep out;
  out.span = stages.layout.span;
  out.count = expressions->Resolve(stages.count);
  out.reversed = stages.reversed;
  if (!stages.rank) {
    out.layout =
        ResolveLayout(stages.layout, /*or_any=*/false, diagnostics).value_or(Layout::kLine);
    return out;
  }
  out.layout = Layout::kExpression;
  scope->OpenBlock();
  out.slot = expressions->DefineValue(stages.layout);
  out.rank = expressions->Resolve(*stages.rank);
  out.span = stages.rank->span;
  scope->CloseBlock();
  return out;
}

class Resolver {
 public:
  Resolver(const ast::Schedule& schedule, const std::string& rank_variable,
           Diagnostics* diagnostics)
      : schedule_(schedule),
        rank_variable_(rank_variable),
        diagnostics_(diagnostics),
        scope_(diagnostics),
        expressions_(&program_, &scope_, diagnostics),
        rules_(&program_, &expressions_, diagnostics) {}

  std::optional<Program> Run() {
    const size_t before = diagnostics_->findings().size();
    first_finding_ = before;
    scope_.OpenBlock();
    ResolveHeader();
    if (schedule_.derived) {
      ResolveDerived(*schedule_.derived);
    } else {
      program_.steps = ResolveStatements(schedule_.body, Place::kSchedule);
      CheckParts();
      CheckBareStages();
    }
    if (diagnostics_->findings().size() > before) return std::nullopt;
    return std::move(program_);
  }

 private:
  void ResolveHeader() {
    const std::vector<ast::Option>& parameters = schedule_.parameters;
    constexpr std::array<const char*, 2> kFirst = {"P", "M"};
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ast::Option& option = parameters[i];
      if (i < kFirst.size() && (option.name.text != kFirst[i] || option.value)) {
        Header(option.name.span, absl::StrCat("parameter ", i + 1, " of a schedule is '", kFirst[i],
                                              "', without a default"));
      } else if (i >= kFirst.size() && !option.value) {
        Header(option.name.span, absl::StrCat("option '", option.name.text, "' has no default"));
      }
      program_.defaults.push_back(option.value ? expressions_.Resolve(*option.value) : -1);
      scope_.Define(option.name, Symbol::Kind::kValue, program_.AddSlot(option.name.text));
    }
    if (parameters.size() < kFirst.size()) {
      Header(schedule_.name.span, "the parameters of a schedule begin with 'P' and 'M'");
    }
  }

  // The arguments may use the parameters; a change may also use the rank, by its name in the root
  // schedule.
  void ResolveDerived(const ast::Derived& derived) {
    DerivedStep& out = program_.derived.emplace();
    for (const ast::Derived::Argument& argument : derived.arguments) {
      out.arguments.push_back({argument.name ? argument.name->text : "",
                               argument.name ? argument.name->span : argument.value.span,
                               expressions_.Resolve(argument.value)});
    }
    scope_.OpenBlock();
    program_.rank_slot = program_.AddSlot(rank_variable_);
    scope_.DefineUnlessKnown({rank_variable_, derived.base.span}, Symbol::Kind::kValue,
                             program_.rank_slot);
    for (const ast::Derived::Then& then : derived.thens) {
      out.thens.push_back({ChangeOf(then.word), then.count.span, expressions_.Resolve(then.count)});
    }
    scope_.CloseBlock();
  }

  void Header(Span span, std::string text) {
    diagnostics_->Add(Code::kBadHeader, span, std::move(text));
  }

  void CheckParts() {
    if (first_.pad && program_.mode == RankMode::kSearch) {
      Misplaced(*first_.pad,
                "'pad' cannot stand beside a search block: it finds orders for any number");
    }
    if (program_.place && (first_.stages || pipe_)) {
      Misplaced(*program_.place, "'place' stands instead of 'stages' and pipes, not beside them");
    }
    if (program_.split) CheckSplit(program_, diagnostics_);
    CheckChoices(program_, diagnostics_);
    CheckRows(program_, diagnostics_);
    CheckEdges(program_, diagnostics_);
    auto& counts = first_.counts;
    CheckCounts(program_, &counts, first_.pad, slice_, diagnostics_);
    if (counts[Step::Kind::kAhead] && first_.unshard)
      FindGatheredTwice(*first_.unshard, diagnostics_);
    const bool placed = first_.stages || !program_.pipes.empty() || program_.place;
    if (placed && first_.rank) return;
    const char* lacks = placed        ? "'rank' block"
                        : first_.rank ? "'stages'"
                                      : "'stages' and no 'rank' block";
    diagnostics_->Add(Code::kMissingPart, schedule_.name.span,
                      absl::StrCat("schedule '", schedule_.name.text, "' has no ", lacks));
  }

  std::vector<Step> ResolveBlock(const ast::Block& block, Place place) {
    scope_.OpenBlock();
    std::vector<Step> steps = ResolveStatements(block, place);
    scope_.CloseBlock();
    return steps;
  }

  std::vector<Step> ResolveStatements(const ast::Block& block, Place place) {
    std::vector<Step> steps;
    for (const ast::Statement& statement : block.statements) {
      constexpr size_t kMostFindings = 100;
      if (diagnostics_->findings().size() >= first_finding_ + kMostFindings) break;
      std::visit([&](const auto& node) { Resolve(node, place, &steps); }, statement.node);
    }
    return steps;
  }

  bool Stands(bool allowed, Span span, absl::string_view what, absl::string_view where) {
    return StandsOrFind(allowed, span, what, where, diagnostics_);
  }

  bool Once(std::optional<Span>* first, Span span, absl::string_view what) {
    return OnceOrFind(first, span, what, diagnostics_);
  }

  bool InSequence(Span span, absl::string_view what) {
    return InModeOrFind({RankMode::kSequence}, program_.mode, span, what, diagnostics_);
  }

  void Resolve(const ast::Let& let, Place, std::vector<Step>* steps) {
    if (!let.parameters.empty()) {
      const int32_t function = expressions_.ResolveFunction(let);
      scope_.Define(let.name, Symbol::Kind::kFunction, function);
      return;
    }
    Step step{.kind = Step::Kind::kLet, .span = let.value.span};
    step.node = expressions_.Resolve(let.value);
    step.slot = program_.AddSlot(let.name.text);
    scope_.Define(let.name, Symbol::Kind::kValue, step.slot);
    expressions_.pipe_stages().AddSlot(step.slot, step.node);
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Require& require, Place, std::vector<Step>* steps) {
    Step step{.kind = Step::Kind::kRequire, .span = require.condition.span};
    step.node = expressions_.Resolve(require.condition);
    step.text = require.message;
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Stages& stages, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kSchedule, stages.span, "'stages'", kInSchedule)) return;
    if (!Once(&first_.stages, stages.span, "'stages'")) return;
    if (pipe_) {
      Misplaced(stages.span, "the stages of a schedule with pipes stand in its pipes");
      return;
    }
    AddPipe({.span = stages.span, .stages = StagesOf(stages)}, stages.span, steps);
  }

  void Resolve(const ast::Pipe& pipe, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kSchedule, pipe.span, "'pipe'", kInSchedule)) return;
    if (!pipe_) pipe_ = pipe.span;
    if (first_.stages) {
      Misplaced(pipe.span, "the stages of a schedule with pipes stand in its pipes");
      return;
    }
    if (first_.pad) Misplaced(*first_.pad, "'pad' cannot stand in a schedule with pipes");
    PipeStep out{.name = pipe.name.text, .span = pipe.name.span};
    out.stages = StagesOf(pipe.stages);
    out.microbatches = expressions_.Resolve(pipe.microbatches);
    scope_.Define(pipe.name, Symbol::Kind::kPipe, static_cast<int32_t>(program_.pipes.size()));
    AddPipe(std::move(out), pipe.span, steps);
  }

  void Misplaced(Span span, std::string text) {
    diagnostics_->Add(Code::kMisplaced, span, std::move(text));
  }

  StagesStep StagesOf(const ast::Stages& stages) {
    return ResolveStages(stages, &scope_, &expressions_, diagnostics_);
  }

  void AddPipe(PipeStep pipe, Span span, std::vector<Step>* steps) {
    Step step{.kind = Step::Kind::kStages, .span = span};
    step.slot = static_cast<int32_t>(program_.pipes.size());
    program_.pipes.push_back(std::move(pipe));
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Split& split, Place place, std::vector<Step>*) {
    const bool searched = place == Place::kRank && program_.mode == RankMode::kSearch;
    if (!Stands(place == Place::kSchedule || searched, split.span, "'split'", kInSchedule)) return;
    if (!Once(&first_.split, split.span, "'split'")) return;
    SplitStep& out = program_.split.emplace();
    out.span = split.span;
    if (split.layout) {
      out.kind = Split::Kind::kLayout;
      out.span = split.layout->span;
      auto layout = ReadLayout(split.layout->text, split.layout->span.begin, !SaysEdges(schedule_),
                               diagnostics_);
      if (layout) out.layout = *std::move(layout);
    } else if (split.kind.empty()) {
      out.kind = Split::Kind::kLayers;
      out.layers = expressions_.ResolvePerStage(split.layers);
    } else {
      out.kind = split.kind == "balanced" ? Split::Kind::kBalanced : Split::Kind::kEven;
      out.any = split.kind == "any";
    }
  }

  void Resolve(const ast::Recompute& recompute, Place place, std::vector<Step>*) {
    const bool searched = place == Place::kRank && program_.mode == RankMode::kSearch;
    if (!Stands(place == Place::kSchedule || searched, recompute.span, "'recompute'",
                kInSchedule)) {
      return;
    }
    if (!Once(&first_.recompute, recompute.span, "'recompute'")) return;
    RecomputeStep& out = program_.recompute.emplace();
    out.span = recompute.span;
    out.all = recompute.kind == "all";
    out.any = recompute.kind == "any";
    if (recompute.kind.empty()) out.stages = expressions_.ResolvePerStage(recompute.stages);
  }

  void Resolve(const ast::Overlap& written, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, written.span, "'overlap'", kInSchedule)) return;
    std::optional<Overlap> overlap = ResolveOverlap(written, program_.overlaps, diagnostics_);
    if (overlap) program_.overlaps.push_back(*std::move(overlap));
  }

  // A statement of a schedule that stands once and has a number.
  void Resolve(const ast::Count& count, Place place, std::vector<Step>* steps) {
    const Step::Kind kind = CountOfWord(count.word.text);
    const std::string what =
        absl::StrCat("'", count.word.text, kind == Step::Kind::kAhead ? " ahead'" : "'");
    if (!Stands(place == Place::kSchedule, count.span, what, kInSchedule)) return;
    if (!Once(&first_.counts[kind], count.span, what)) return;
    steps->push_back(
        {.kind = kind, .span = count.count.span, .node = expressions_.Resolve(count.count)});
  }
  void Resolve(const ast::Edges& edges, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, edges.span, "'edges'", kInSchedule)) return;
    if (!Once(&program_.edges_span, edges.span, "'edges'")) return;
    ResolveEdges(edges, &scope_, &expressions_, &program_);
  }
  void Resolve(const ast::Skip& skip, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, skip.span, "'skip'", kInSchedule)) return;
    if (!Once(&first_.skip, skip.span, "'skip'")) return;
    ResolveSkip(skip, &scope_, &expressions_, &program_);
  }
  void Resolve(const ast::ForwardOnly& only, Place place, std::vector<Step>*) {
    constexpr const char* kWhat = "'forward only'";
    if (!Stands(place == Place::kSchedule, only.span, kWhat, kInSchedule)) return;
    Once(&program_.forward_only, only.span, kWhat);
  }

  void Resolve(const ast::OwnValue& value, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, value.span, "'value'", kInSchedule)) return;
    ResolveRow(value, &expressions_, &program_, diagnostics_);
  }
  void Resolve(const ast::OwnAction& action, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, action.span, "'action'", kInSchedule)) return;
    ResolveRow(action, &program_, diagnostics_);
  }

  void Resolve(const ast::Pad& pad, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kSchedule, pad.span, "'pad'", kInSchedule)) return;
    if (!Once(&first_.pad, pad.span, "'pad'")) return;
    const ast::Expr& to = pad.count;
    steps->push_back({.kind = Step::Kind::kPad, .span = to.span, .node = expressions_.Resolve(to)});
    if (first_.pad && pipe_) Misplaced(pad.span, "'pad' cannot stand in a schedule with pipes");
  }

  void Resolve(const ast::Rank& rank, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, rank.span, "'rank'", kInSchedule)) return;
    if (!Once(&first_.rank, rank.span, "rank block")) return;
    scope_.OpenBlock();
    program_.rank_slot = program_.AddSlot(rank.variable.text);
    scope_.Define(rank.variable, Symbol::Kind::kValue, program_.rank_slot);
    if (rank.mode) {
      program_.mode = ModeOf(rank.mode->text);
      program_.mode_span = rank.mode->span;
      program_.mode_place = static_cast<uint32_t>(program_.places.size());
      program_.places.push_back(rank.mode->span);
    }
    program_.rank = ResolveStatements(rank.body, Place::kRank);
    rules_.CheckBlock();
    scope_.CloseBlock();
  }

  void Resolve(const ast::Order& order, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kRank, order.name.span, "an order", kInRank)) return;
    if (!InSequence(order.name.span, "an order")) return;
    Step step{.kind = Step::Kind::kOrder, .span = order.name.span};
    step.body = ResolveBlock(order.body, Place::kOrder);
    step.slot = static_cast<int32_t>(program_.orders.size());
    program_.orders.push_back({order.name.text, order.name.span});
    scope_.Define(order.name, Symbol::Kind::kOrder, step.slot);
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Repeat& repeat, Place place, std::vector<Step>* steps) {
    if (!Stands(place != Place::kSchedule, repeat.span, "'repeat'", kWithinRank)) return;
    Step step{.kind = Step::Kind::kRepeat, .span = repeat.count.span};
    step.node = expressions_.Resolve(repeat.count);
    scope_.OpenBlock();
    if (repeat.variable) {
      step.slot = program_.AddSlot(repeat.variable->text);
      scope_.Define(*repeat.variable, Symbol::Kind::kValue, step.slot);
    }
    step.body = ResolveStatements(repeat.body, std::max(place, Place::kLoop));
    scope_.CloseBlock();
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::If& if_else, Place place, std::vector<Step>* steps) {
    if (!Stands(place != Place::kSchedule, if_else.span, "'if'", kWithinRank)) return;
    const Place inside = std::max(place, Place::kLoop);
    Step step{.kind = Step::Kind::kIf, .span = if_else.span};
    for (const ast::If::Arm& arm : if_else.arms) {
      Step out{.kind = Step::Kind::kArm, .span = arm.condition.span};
      out.node = expressions_.Resolve(arm.condition);
      out.body = ResolveBlock(arm.body, inside);
      step.body.push_back(std::move(out));
    }
    if (if_else.otherwise) {
      Step out{.kind = Step::Kind::kArm, .span = if_else.otherwise->open};
      out.body = ResolveBlock(*if_else.otherwise, inside);
      step.body.push_back(std::move(out));
    }
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Group& group, Place place, std::vector<Step>* steps) {
    const Span span = group.parts.front().span;
    if (!Stands(place != Place::kSchedule, span, "an action", kWithinRank)) return;
    if (!InSequence(span, "an action")) return;
    Step step{.kind = Step::Kind::kGroup, .span = span};
    step.parts = ResolveParts(group, place);
    steps->push_back(std::move(step));
  }

  std::vector<PartStep> ResolveParts(const ast::Group& group, Place place) {
    std::vector<PartStep> parts;
    for (const ast::Part& part : group.parts) {
      PartStep out{.span = part.span, .place = static_cast<uint32_t>(program_.places.size())};
      program_.places.push_back(part.span);
      if (part.letter == 0 && !part.stage) {
        out.order = OrderOf(part, place, &scope_, diagnostics_);
        parts.push_back(out);
        continue;
      }
      out.kind = KindOf(group, part, program_, diagnostics_);
      if (part.stage) out.stage = ResolveStage(*part.stage, NameOf(part), &out.slice);
      if (part.slice) out.slice = expressions_.Resolve(*part.slice);
      if (out.slice >= 0 && !slice_) slice_ = part.span;
      if (part.microbatch) out.microbatch = expressions_.Resolve(*part.microbatch);
      parts.push_back(out);
    }
    return parts;
  }

  // Resolves the stage of an action, named `action` in findings.
  int32_t ResolveStage(const ast::Expr& stage, std::string action, int32_t* slice) {
    const int32_t node = expressions_.ResolveStage(stage, slice);
    if (!expressions_.pipe_stages().Names(node)) bare_.push_back({stage.span, std::move(action)});
    return node;
  }

  // With several pipes every stage must name its own.
  void CheckBareStages() {
    if (program_.pipes.size() < 2 || diagnostics_->findings().size() > first_finding_) return;
    const std::string& first = program_.pipes[0].name;
    for (const auto& [span, action] : bare_) {
      diagnostics_->Add(
          Code::kNoPipe, span,
          absl::StrCat("this stage does not say its pipe, and there are ", program_.pipes.size(),
                       "; '", action, " ", first, "[k]' means stage k of '", first, "'"));
    }
  }

  void Resolve(const ast::Collective& collective, Place place, std::vector<Step>* steps) {
    const std::string what = absl::StrCat("'", collective.word.text, "'");
    if (!Stands(StandsIn(place, collective), collective.span, what, kWithinRank)) return;
    if (!InSequence(collective.span, what)) return;
    const PartStep part = ResolveCollective(collective);
    if (part.kind == ActionKind::kUnshard) first_.unshard = collective.span;
    steps->push_back({.kind = Step::Kind::kCollective, .span = collective.span, .parts = {part}});
  }

  PartStep ResolveCollective(const ast::Collective& collective) {
    PartStep part{.span = collective.span, .kind = KindOfCollective(collective)};
    part.stage = ResolveStage(collective.stage, collective.word.text, &part.slice);
    if (part.slice >= 0) Misplaced(collective.span, "this acts on a whole stage: it has no slices");
    part.place = static_cast<uint32_t>(program_.places.size());
    program_.places.push_back(collective.span);
    return part;
  }

  void Resolve(const ast::At& at, Place place, std::vector<Step>* steps) {
    if (!Stands(place != Place::kSchedule, at.span, "'at'", kWithinRank)) return;
    if (!InModeOrFind({RankMode::kTimetable}, program_.mode, at.span, "'at'", diagnostics_)) return;
    Step step{.kind = Step::Kind::kAt, .span = at.slot.span};
    step.node = expressions_.Resolve(at.slot);
    if (at.collective && !StandsAtSlot(*at.collective, diagnostics_)) return;
    step.parts = at.collective ? std::vector<PartStep>{ResolveCollective(*at.collective)}
                               : ResolveParts(at.group, place);
    steps->push_back(std::move(step));
  }

  // All other statements are rules.
  template <typename Rule>
  void Resolve(const Rule& rule, Place place, std::vector<Step>* steps) {
    rules_.Resolve(rule, place == Place::kRank, steps);
  }

  const ast::Schedule& schedule_;
  const std::string rank_variable_;
  Diagnostics* diagnostics_;
  Program program_;
  Scope scope_;
  ExpressionResolver expressions_;
  RuleResolver rules_;
  size_t first_finding_ = 0;
  std::optional<Span> pipe_;  // the first
  struct BareStage {
    Span span;
    std::string action;
  };
  std::vector<BareStage> bare_;  // stages without a pipe
  // The first of each of these statements.
  struct {
    std::optional<Span> stages, split, recompute, pad, unshard, rank, skip;
    Counts counts;
  } first_;
  std::optional<Span> slice_;  // the first action that names its slice
};

}  // namespace

std::optional<Program> Resolve(const ast::Schedule& schedule, Diagnostics* diagnostics,
                               const std::string& rank_variable) {
  return Resolver(schedule, rank_variable, diagnostics).Run();
}

}  // namespace stringline
