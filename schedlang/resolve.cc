#include "schedlang/resolve.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "schedlang/resolve_expression.h"
#include "schedlang/scope.h"

namespace stringline {
namespace {

// Where a statement stands, from the outside in.
enum class Place : uint8_t { kSchedule, kRank, kLoop, kOrder };

class Resolver {
 public:
  Resolver(const ast::Schedule& schedule, Diagnostics* diagnostics)
      : schedule_(schedule),
        diagnostics_(diagnostics),
        scope_(diagnostics),
        expressions_(&program_, &scope_, diagnostics) {}

  std::optional<Program> Run() {
    const size_t before = diagnostics_->findings().size();
    first_finding_ = before;
    scope_.OpenBlock();
    ResolveHeader();
    program_.steps = ResolveStatements(schedule_.body, Place::kSchedule);
    CheckParts();
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
      scope_.Define(option.name, Symbol::Kind::kValue, NewSlot(option.name.text));
    }
    if (parameters.size() < kFirst.size()) {
      Header(schedule_.name.span, "the parameters of a schedule begin with 'P' and 'M'");
    }
  }

  void Header(Span span, std::string text) {
    diagnostics_->Add(Code::kBadHeader, span, std::move(text));
  }

  void CheckParts() {
    if (stages_ && rank_) return;
    const char* lacks = stages_ ? "'rank' block"
                        : rank_ ? "'stages'"
                                : "'stages' and no 'rank' block";
    diagnostics_->Add(Code::kMissingPart, schedule_.name.span,
                      absl::StrCat("schedule '", schedule_.name.text, "' has no ", lacks));
  }

  int32_t NewSlot(const std::string& name) {
    program_.slot_names.push_back(name);
    return static_cast<int32_t>(program_.slot_names.size()) - 1;
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

  // Adds a finding unless the statement `what` may stand at `place`, which is one of `allowed`.
  bool Stands(bool allowed, Span span, absl::string_view what, absl::string_view where) {
    if (!allowed) {
      diagnostics_->Add(Code::kMisplaced, span, absl::StrCat(what, " stands only ", where));
    }
    return allowed;
  }

  static constexpr absl::string_view kInSchedule = "directly in a schedule";
  static constexpr absl::string_view kInRank = "directly in a rank block";
  static constexpr absl::string_view kWithinRank = "in a rank block";

  // Once per schedule: `first` keeps the span of the first one.
  bool Once(std::optional<Span>* first, Span span, absl::string_view what) {
    if (!*first) {
      *first = span;
      return true;
    }
    diagnostics_->Add(Code::kRedefined, span, absl::StrCat("a second ", what))
        .notes.push_back({**first, "the first one is here", ""});
    return false;
  }

  void Resolve(const ast::Let& let, Place, std::vector<Step>* steps) {
    if (!let.parameters.empty()) {
      const int32_t function = expressions_.ResolveFunction(let);
      scope_.Define(let.name, Symbol::Kind::kFunction, function);
      return;
    }
    Step step{.kind = Step::Kind::kLet, .span = let.value.span};
    step.node = expressions_.Resolve(let.value);
    step.slot = NewSlot(let.name.text);
    scope_.Define(let.name, Symbol::Kind::kValue, step.slot);
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
    if (!Once(&stages_, stages.span, "'stages'")) return;
    StagesStep& out = program_.stages;
    out.span = stages.layout.span;
    out.count = expressions_.Resolve(stages.count);
    out.reversed = stages.reversed;
    if (stages.rank) {
      out.layout = Layout::kExpression;
      scope_.OpenBlock();
      out.slot = NewSlot(stages.layout.text);
      scope_.Define(stages.layout, Symbol::Kind::kValue, out.slot);
      out.rank = expressions_.Resolve(*stages.rank);
      out.span = stages.rank->span;
      scope_.CloseBlock();
    } else {
      ResolveLayout(stages.layout, &out.layout);
    }
    steps->push_back({.kind = Step::Kind::kStages, .span = stages.span});
  }

  void ResolveLayout(const ast::Name& name, Layout* layout) {
    static const auto* names = new std::vector<std::string>{"line", "loop", "v", "wave"};
    const auto it = std::find(names->begin(), names->end(), name.text);
    if (it != names->end()) {
      *layout = static_cast<Layout>(it - names->begin());
      return;
    }
    const std::string closest = ClosestName(name.text, *names);
    diagnostics_->Add(
        Code::kUnknownLayout, name.span,
        absl::StrCat("there is no layout '", name.text, "'",
                     closest.empty() ? "" : absl::StrCat("; did you mean '", closest, "'?")));
  }

  void Resolve(const ast::Pad& pad, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kSchedule, pad.span, "'pad'", kInSchedule)) return;
    if (!Once(&pad_, pad.span, "'pad'")) return;
    Step step{.kind = Step::Kind::kPad, .span = pad.count.span};
    step.node = expressions_.Resolve(pad.count);
    steps->push_back(std::move(step));
  }

  void Resolve(const ast::Rank& rank, Place place, std::vector<Step>*) {
    if (!Stands(place == Place::kSchedule, rank.span, "'rank'", kInSchedule)) return;
    if (!Once(&rank_, rank.span, "rank block")) return;
    scope_.OpenBlock();
    program_.rank_slot = NewSlot(rank.variable.text);
    scope_.Define(rank.variable, Symbol::Kind::kValue, program_.rank_slot);
    program_.rank = ResolveStatements(rank.body, Place::kRank);
    scope_.CloseBlock();
  }

  void Resolve(const ast::Order& order, Place place, std::vector<Step>* steps) {
    if (!Stands(place == Place::kRank, order.name.span, "an order", kInRank)) return;
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
      step.slot = NewSlot(repeat.variable->text);
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
    Step step{.kind = Step::Kind::kGroup, .span = group.parts.front().span};
    for (const ast::Part& part : group.parts) {
      if (!Stands(place != Place::kSchedule, part.span, "an action", kWithinRank)) return;
      PartStep out{.span = part.span, .place = static_cast<uint32_t>(program_.places.size())};
      program_.places.push_back(part.span);
      if (part.letter == 0) {
        out.order = ResolveOrderName(part, place);
      } else {
        constexpr absl::string_view kLetters = "FBIW";
        out.kind = static_cast<ActionKind>(kLetters.find(part.letter));
        if (part.stage) out.stage = expressions_.Resolve(*part.stage);
        if (part.microbatch) out.microbatch = expressions_.Resolve(*part.microbatch);
      }
      step.parts.push_back(out);
    }
    steps->push_back(std::move(step));
  }

  int32_t ResolveOrderName(const ast::Part& part, Place place) {
    const Symbol* symbol = scope_.Find(part.name, part.span);
    if (symbol == nullptr) return -1;
    if (symbol->kind != Symbol::Kind::kOrder) {
      diagnostics_->Add(Code::kWrongUse, part.span,
                        absl::StrCat("'", part.name, "' is ", SortOf(*symbol), ", not an order"));
    } else if (place == Place::kOrder) {
      diagnostics_->Add(Code::kMisplaced, part.span,
                        "an order is written down from actions, not from another order");
    }
    return symbol->index;
  }

  const ast::Schedule& schedule_;
  Diagnostics* diagnostics_;
  Program program_;
  Scope scope_;
  ExpressionResolver expressions_;
  size_t first_finding_ = 0;
  std::optional<Span> stages_;
  std::optional<Span> pad_;
  std::optional<Span> rank_;
};

}  // namespace

std::optional<Program> Resolve(const ast::Schedule& schedule, Diagnostics* diagnostics) {
  return Resolver(schedule, diagnostics).Run();
}

}  // namespace stringline
