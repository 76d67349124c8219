// A schedule's own values and actions -> the rows of its plan (plan/rows.h).
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/resolve_expression.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Both add a row to the program, or findings.
void ResolveRow(const ast::OwnValue& value, ExpressionResolver* expressions, Program* program,
                Diagnostics* diagnostics);
void ResolveRow(const ast::OwnAction& action, Program* program, Diagnostics* diagnostics);

// Puts the program's rows into the plan, whose stages are known, with the ranks of values on other
// ranks' devices. False after a finding, or a failure of the evaluator.
bool FitRows(const Program& program, Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

// The own action of that name, written with a stage; a finding and null without one.
const OwnAction* FindOwnAction(const ast::Part& part, const Program& program,
                               Diagnostics* diagnostics);

// Findings for rows beside a rank block that puts actions in order by itself, and beside `tighten`.
void CheckRows(const Program& program, Diagnostics* diagnostics);

}  // namespace stringline
