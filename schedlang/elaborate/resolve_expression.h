// Expressions of the ast -> nodes of a Program.
#pragma once

#include <variant>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/pipe_stages.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/scope.h"
#include "schedlang/text/ast.h"

namespace stringline {

class ExpressionResolver {
 public:
  ExpressionResolver(Program* program, Scope* scope, Diagnostics* diagnostics)
      : program_(program), scope_(scope), diagnostics_(diagnostics) {}

  // The node of the expression. After a finding the node exists, but has no meaning.
  int32_t Resolve(const ast::Expr& expr) { return ResolveAt(expr, nullptr); }

  // The same of an action's stage, which `[k]` may follow. Behind a name that is no pipe these
  // brackets name a slice: then *slice is the node of k, and the stage goes up to the name.
  int32_t ResolveStage(const ast::Expr& stage, int32_t* slice);

  // The function defined by a `let` with parameters; its name is not defined yet, so its body
  // cannot use it.
  int32_t ResolveFunction(const ast::Let& let);

  // The slot of a new name, which is a value until the current block is closed.
  int32_t DefineValue(const ast::Name& name);

  PerStageStep ResolvePerStage(const ast::PerStage& said);
  // The expression for every stage, which has the variable's name.
  PerStageStep ResolveByStage(const ast::Name& variable, const ast::Expr& value);
  // The name of a stage that no expression uses; a finding if it is another name, too.
  void CheckStageName(const ast::Name& variable);

  // The slots and nodes whose values name their pipe.
  PipeStages& pipe_stages() { return pipe_stages_; }

 private:
  // Raises `deepest` (may be null) to the recursion depth of the expression's evaluation.
  int32_t ResolveAt(const ast::Expr& expr, int* deepest);

  ExpressionNode MakeNode(const ast::Number& number, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Reference& reference, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Unary& unary, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Binary& binary, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Conditional& conditional, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Call& call, Span span, int* deepest);
  ExpressionNode MakeNode(const ast::Index& index, Span span, int* deepest);

  Program* program_;
  Scope* scope_;
  Diagnostics* diagnostics_;
  PipeStages pipe_stages_;
  const ast::Index* brackets_ = nullptr;  // of a slice, behind the stage that is being resolved
  int32_t slice_ = -1;                    // their node
};

}  // namespace stringline
