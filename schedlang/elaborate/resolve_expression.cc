// An expression becomes nodes in the order of evaluation: operands first, then the node that reads
// them. Names are looked up once, here, and become slots; depth is bounded while nodes are made.
#include "schedlang/elaborate/resolve_expression.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/resolve.h"

namespace stringline {
namespace {

Operator OpOf(ast::Operator op) {
  switch (op) {
    case ast::Operator::kOr:
      return Operator::kOr;
    case ast::Operator::kAnd:
      return Operator::kAnd;
    case ast::Operator::kNot:
      return Operator::kNot;
    case ast::Operator::kEqual:
      return Operator::kEqual;
    case ast::Operator::kUnequal:
      return Operator::kUnequal;
    case ast::Operator::kLess:
      return Operator::kLess;
    case ast::Operator::kLessEqual:
      return Operator::kLessEqual;
    case ast::Operator::kGreater:
      return Operator::kGreater;
    case ast::Operator::kGreaterEqual:
      return Operator::kGreaterEqual;
    case ast::Operator::kAdd:
      return Operator::kAdd;
    case ast::Operator::kSubtract:
      return Operator::kSubtract;
    case ast::Operator::kMultiply:
      return Operator::kMultiply;
    case ast::Operator::kDivide:
      return Operator::kDivide;
    case ast::Operator::kRemainder:
      return Operator::kRemainder;
    case ast::Operator::kNegate:
      return Operator::kNegate;
  }
  return Operator::kNumber;
}

// The `name[k]` with which an expression ends, outside of parentheses; null for another end.
const ast::Index* BracketsAtEnd(const ast::Expr& expr) {
  const ast::Expr* last = &expr;
  for (;;) {
    const ast::Expr* next = nullptr;
    if (const auto* index = std::get_if<ast::Index>(&last->node)) return index;
    if (const auto* unary = std::get_if<ast::Unary>(&last->node)) next = unary->operand.get();
    if (const auto* binary = std::get_if<ast::Binary>(&last->node)) next = binary->right.get();
    if (const auto* choice = std::get_if<ast::Conditional>(&last->node)) next = choice->no.get();
    if (next == nullptr || next->span.end != expr.span.end) return nullptr;
    last = next;
  }
}

}  // namespace

int32_t ExpressionResolver::ResolveStage(const ast::Expr& stage, int32_t* slice) {
  brackets_ = BracketsAtEnd(stage);
  if (brackets_ != nullptr && !scope_->IsOther(brackets_->pipe.text, Symbol::Kind::kPipe)) {
    brackets_ = nullptr;
  }
  slice_ = -1;
  const int32_t node = Resolve(stage);
  brackets_ = nullptr;
  *slice = slice_;
  return node;
}

int32_t ExpressionResolver::ResolveAt(const ast::Expr& expr, int* deepest) {
  int below = 0;
  ExpressionNode node =
      std::visit([&](const auto& n) { return MakeNode(n, expr.span, &below); }, expr.node);
  node.span = expr.span;
  if (deepest != nullptr) *deepest = std::max(*deepest, below + 1);
  pipe_stages_.AddNode(*program_, node);
  program_->nodes.push_back(node);
  return static_cast<int32_t>(program_->nodes.size()) - 1;
}

int32_t ExpressionResolver::ResolveFunction(const ast::Let& let) {
  Function function;
  function.name = let.name.text;
  function.first_slot = static_cast<int32_t>(program_->slot_names.size());
  function.parameters = static_cast<int32_t>(let.parameters.size());
  scope_->OpenBlock();
  for (const ast::Name& parameter : let.parameters) {
    DefineValue(parameter);
  }
  scope_->BeginFunction(let.name.text);
  function.body = ResolveAt(let.value, &function.depth);
  scope_->EndFunction();
  scope_->CloseBlock();
  pipe_stages_.AddFunction(function.body);
  program_->functions.push_back(std::move(function));
  return static_cast<int32_t>(program_->functions.size()) - 1;
}

int32_t ExpressionResolver::DefineValue(const ast::Name& name) {
  const int32_t slot = program_->AddSlot(name.text);
  scope_->Define(name, Symbol::Kind::kValue, slot);
  return slot;
}

PerStageStep ExpressionResolver::ResolvePerStage(const ast::PerStage& said) {
  if (said.variable) return ResolveByStage(*said.variable, said.values.front());
  PerStageStep out{.nodes = {}, .is_list = said.is_list};
  for (const ast::Expr& value : said.values) out.nodes.push_back(Resolve(value));
  return out;
}

PerStageStep ExpressionResolver::ResolveByStage(const ast::Name& variable, const ast::Expr& value) {
  PerStageStep out;
  scope_->OpenBlock();
  out.slot = DefineValue(variable);
  out.nodes.push_back(Resolve(value));
  scope_->CloseBlock();
  return out;
}

void ExpressionResolver::CheckStageName(const ast::Name& variable) {
  scope_->OpenBlock();
  scope_->Define(variable, Symbol::Kind::kValue, static_cast<int32_t>(program_->slot_names.size()));
  scope_->CloseBlock();
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Number& number, Span, int*) {
  return {.op = Operator::kNumber, .value = number.value};
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Reference& reference, Span span, int*) {
  const Symbol* symbol = scope_->Find(reference.name, span);
  if (symbol == nullptr) return {};
  if (symbol->kind != Symbol::Kind::kValue) {
    const bool pipe = symbol->kind == Symbol::Kind::kPipe;
    diagnostics_->Add(Code::kWrongUse, span,
                      absl::StrCat("'", reference.name, "' is ", SortOf(*symbol), ", not a value",
                                   pipe ? "; its stages are written as in 'down[r]'" : ""));
    return {};
  }
  return {.op = Operator::kSlot, .a = symbol->index};
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Unary& unary, Span, int* deepest) {
  return {.op = OpOf(unary.op), .a = ResolveAt(*unary.operand, deepest)};
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Binary& binary, Span, int* deepest) {
  ExpressionNode node{.op = OpOf(binary.op)};
  node.a = ResolveAt(*binary.left, deepest);
  node.b = ResolveAt(*binary.right, deepest);
  return node;
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Conditional& conditional, Span,
                                            int* deepest) {
  ExpressionNode node{.op = Operator::kConditional};
  node.a = ResolveAt(*conditional.condition, deepest);
  node.b = ResolveAt(*conditional.yes, deepest);
  node.c = ResolveAt(*conditional.no, deepest);
  return node;
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Call& call, Span span, int* deepest) {
  const Symbol* symbol = scope_->Find(call.name.text, call.name.span);
  std::vector<int32_t> arguments;
  for (const ast::Expr& argument : call.arguments) {
    arguments.push_back(ResolveAt(argument, deepest));
  }
  if (symbol == nullptr) return {};
  const auto given = static_cast<int32_t>(arguments.size());
  ExpressionNode node{.b = static_cast<int32_t>(program_->arguments.size()), .c = given};
  program_->arguments.insert(program_->arguments.end(), arguments.begin(), arguments.end());
  const bool extreme = symbol->kind == Symbol::Kind::kMin || symbol->kind == Symbol::Kind::kMax;
  if (!extreme && symbol->kind != Symbol::Kind::kFunction) {
    diagnostics_->Add(
        Code::kWrongUse, call.name.span,
        absl::StrCat("'", call.name.text, "' is ", SortOf(*symbol), ", not a function"));
    return {};
  }
  if (extreme) {
    node.op = symbol->kind == Symbol::Kind::kMin ? Operator::kMin : Operator::kMax;
    if (given >= 2) return node;
    diagnostics_->Add(Code::kWrongArity, span,
                      absl::StrCat("'", call.name.text, "' of one value; it takes two or more"));
    return {};
  }
  const Function& function = program_->functions[symbol->index];
  node.op = Operator::kCall;
  node.a = symbol->index;
  if (given != function.parameters) {
    diagnostics_
        ->Add(Code::kWrongArity, span,
              absl::StrCat("'", function.name, "' is given ", given, " of its ",
                           function.parameters, " arguments"))
        .notes.push_back({*symbol->span, "it is defined here", ""});
  }
  *deepest = std::max(*deepest, function.depth);
  if (*deepest > kDeepestEvaluation) {
    diagnostics_->Add(
        Code::kTooDeep, span,
        absl::StrCat("calls are nested more than ", kDeepestEvaluation, " deep here"));
    *deepest = 0;
  }
  return node;
}

ExpressionNode ExpressionResolver::MakeNode(const ast::Index& index, Span, int* deepest) {
  if (&index == brackets_) {
    slice_ = Resolve(*index.index);
    return MakeNode(ast::Reference{index.pipe.text}, index.pipe.span, deepest);
  }
  const Symbol* symbol = scope_->Find(index.pipe.text, index.pipe.span);
  ExpressionNode node{.op = Operator::kPipeStage};
  node.b = ResolveAt(*index.index, deepest);
  if (symbol == nullptr) return {};
  if (symbol->kind != Symbol::Kind::kPipe) {
    diagnostics_->Add(Code::kWrongUse, index.pipe.span,
                      absl::StrCat("'", index.pipe.text, "' is ", SortOf(*symbol), ", not a pipe"));
    return {};
  }
  node.a = symbol->index;
  return node;
}

}  // namespace stringline
