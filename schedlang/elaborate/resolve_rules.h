// Resolves the rules of a rank block: statements about the making of its order, instead of actions.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/resolve_expression.h"
#include "schedlang/text/ast.h"

namespace stringline {

// The layout of that name; nothing after a finding, which also offers `any` if allowed.
std::optional<Layout> ResolveLayout(const ast::Name& name, bool or_any, Diagnostics* diagnostics);

// F, B, I, W, R, D or U.
ActionKind KindOfLetter(char letter);

class RuleResolver {
 public:
  RuleResolver(Program* program, ExpressionResolver* expressions, Diagnostics* diagnostics)
      : program_(*program), expressions_(*expressions), diagnostics_(diagnostics) {}

  // Each appends a step, or adds a finding. `directly`: the rule is in no loop or branch.
  void Resolve(const ast::Tighten& tighten, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Fill& fill, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Hold& hold, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Prefer& prefer, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Costs& costs, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Minimize& minimize, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Within& within, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Pairs& pairs, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Offload& offload, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Iterations& iterations, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Place& place, bool directly, std::vector<Step>* steps);
  void Resolve(const ast::Layers& layers, bool directly, std::vector<Step>* steps);

  // Adds findings for missing and for conflicting rules of the block.
  void CheckBlock();

 private:
  using Modes = std::initializer_list<RankMode>;

  Step* Rule(Step::Kind kind, Modes modes, Span span, absl::string_view what, bool directly,
             std::vector<Step>* steps);
  Step* Append(Step::Kind kind, Span span, std::vector<Step>* steps);
  bool MayStand(Modes modes, Span span, absl::string_view what, bool directly);
  void AddKind(const ast::Name& letter, Step* step);
  void AddPlace(Span span, Step* step);
  PlacingStep ResolvePlacing(const ast::Place::Row& row);
  void CheckBeforeCosts(Span span, absl::string_view what);
  CostStep ResolveCost(const ast::Name& key, const ast::PerStage& value, Step* step);
  bool Uses(ActionKind kind) const;
  void CheckCosts();
  void CheckSearch();

  Program& program_;
  ExpressionResolver& expressions_;
  Diagnostics* diagnostics_;
  std::map<Step::Kind, std::optional<Span>> seen_;
  std::map<CostOf, std::optional<Span>> seen_costs_;  // except actions
  std::map<ActionKind, std::optional<Span>> pairs_;   // by the kind beside F
  std::optional<Span> within_memory_;
  std::optional<Span> offload_;
  std::vector<ActionKind> prefers_;
  Span prefer_span_;
  std::vector<ActionKind> costed_;  // kinds with a cost in `costs`
};

}  // namespace stringline
