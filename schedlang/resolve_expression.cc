#include "schedlang/resolve_expression.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/resolve.h"

namespace stringline {
namespace {

Op OpOf(ast::Operator op) {
  switch (op) {
    case ast::Operator::kOr:
      return Op::kOr;
    case ast::Operator::kAnd:
      return Op::kAnd;
    case ast::Operator::kNot:
      return Op::kNot;
    case ast::Operator::kEqual:
      return Op::kEqual;
    case ast::Operator::kUnequal:
      return Op::kUnequal;
    case ast::Operator::kLess:
      return Op::kLess;
    case ast::Operator::kLessEqual:
      return Op::kLessEqual;
    case ast::Operator::kGreater:
      return Op::kGreater;
    case ast::Operator::kGreaterEqual:
      return Op::kGreaterEqual;
    case ast::Operator::kAdd:
      return Op::kAdd;
    case ast::Operator::kSubtract:
      return Op::kSubtract;
    case ast::Operator::kMultiply:
      return Op::kMultiply;
    case ast::Operator::kDivide:
      return Op::kDivide;
    case ast::Operator::kRemainder:
      return Op::kRemainder;
    case ast::Operator::kNegate:
      return Op::kNegate;
  }
  return Op::kNumber;
}

}  // namespace

int32_t ExpressionResolver::ResolveAt(const ast::Expr& expr, int* deepest) {
  int below = 0;
  Node node = std::visit([&](const auto& n) { return MakeNode(n, expr.span, &below); }, expr.node);
  node.span = expr.span;
  if (deepest != nullptr) *deepest = std::max(*deepest, below + 1);
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
    scope_->Define(parameter, Symbol::Kind::kValue,
                   static_cast<int32_t>(program_->slot_names.size()));
    program_->slot_names.push_back(parameter.text);
  }
  function.body = ResolveAt(let.value, &function.depth);
  scope_->CloseBlock();
  program_->functions.push_back(std::move(function));
  return static_cast<int32_t>(program_->functions.size()) - 1;
}

Node ExpressionResolver::MakeNode(const ast::Number& number, Span, int*) {
  return {.op = Op::kNumber, .value = number.value};
}

Node ExpressionResolver::MakeNode(const ast::Reference& reference, Span span, int*) {
  const Symbol* symbol = scope_->Find(reference.name, span);
  if (symbol == nullptr) return {};
  if (symbol->kind != Symbol::Kind::kValue) {
    diagnostics_->Add(Code::kWrongUse, span,
                      absl::StrCat("'", reference.name, "' is ", SortOf(*symbol), ", not a value"));
    return {};
  }
  return {.op = Op::kSlot, .a = symbol->index};
}

Node ExpressionResolver::MakeNode(const ast::Unary& unary, Span, int* deepest) {
  return {.op = OpOf(unary.op), .a = ResolveAt(*unary.operand, deepest)};
}

Node ExpressionResolver::MakeNode(const ast::Binary& binary, Span, int* deepest) {
  Node node{.op = OpOf(binary.op)};
  node.a = ResolveAt(*binary.left, deepest);
  node.b = ResolveAt(*binary.right, deepest);
  return node;
}

Node ExpressionResolver::MakeNode(const ast::Conditional& conditional, Span, int* deepest) {
  Node node{.op = Op::kConditional};
  node.a = ResolveAt(*conditional.condition, deepest);
  node.b = ResolveAt(*conditional.yes, deepest);
  node.c = ResolveAt(*conditional.no, deepest);
  return node;
}

Node ExpressionResolver::MakeNode(const ast::Call& call, Span span, int* deepest) {
  const Symbol* symbol = scope_->Find(call.name.text, call.name.span);
  std::vector<int32_t> arguments;
  for (const ast::Expr& argument : call.arguments) {
    arguments.push_back(ResolveAt(argument, deepest));
  }
  if (symbol == nullptr) return {};
  const auto given = static_cast<int32_t>(arguments.size());
  Node node{.b = static_cast<int32_t>(program_->arguments.size()), .c = given};
  program_->arguments.insert(program_->arguments.end(), arguments.begin(), arguments.end());
  const bool extreme = symbol->kind == Symbol::Kind::kMin || symbol->kind == Symbol::Kind::kMax;
  if (!extreme && symbol->kind != Symbol::Kind::kFunction) {
    diagnostics_->Add(
        Code::kWrongUse, call.name.span,
        absl::StrCat("'", call.name.text, "' is ", SortOf(*symbol), ", not a function"));
    return {};
  }
  if (extreme) {
    node.op = symbol->kind == Symbol::Kind::kMin ? Op::kMin : Op::kMax;
    if (given >= 2) return node;
    diagnostics_->Add(Code::kWrongArity, span,
                      absl::StrCat("'", call.name.text, "' of one value; it takes two or more"));
    return {};
  }
  const Function& function = program_->functions[symbol->index];
  node.op = Op::kCall;
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

}  // namespace stringline
