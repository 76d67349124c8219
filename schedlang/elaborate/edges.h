// The ways of microbatches: from `edges …;` and `skip …;` to Plan::graph and Plan::ways.
//
// A name on either side of `->` that nothing defines stands for each stage in turn. Where that is
// the left side, the right side may be no stage: then there is no edge, as behind the last stage of
// `s -> s + 1`.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/resolve_expression.h"
#include "schedlang/elaborate/scope.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Adds the statement's rows to the program.
void ResolveEdges(const ast::Edges& edges, Scope* scope, ExpressionResolver* expressions,
                  Program* program);

void ResolveSkip(const ast::Skip& skip, Scope* scope, ExpressionResolver* expressions,
                 Program* program);

// A finding where the statements cannot stand: beside pipes, and in a search; `skip` also in a
// greedy block, and beside a schedule's own actions.
void CheckEdges(const Program& program, Diagnostics* diagnostics);

// Sets the plan's graph and what microbatches leave out, if the program says it. False after a
// finding: a stage that does not exist, an edge that is there twice, no edges, a cycle, a stage
// that cannot be left out, a layout whose losses are not those of the graph.
bool FitEdges(const Program& program, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
