// Builds the tree of an expression from its row of operands and operators.
//
// From loosest to tightest:  ? :   or   and   not   == != < <= > >=   + -   * / %   unary -
// Conditions group to the right, comparisons do not chain, everything else groups to the left.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/text/ast.h"

namespace stringline {

// A piece of the row: an operand, or an operator as its text. For `a ? b : c` the row holds the
// operand a, the operator `?`, the operand b, and then the pieces of c.
struct RowPiece {
  Span span;
  std::string op;  // empty: an operand
  std::optional<ast::Expr> operand;
};

// The reason for which a grammatical expression is not accepted.
struct Refusal {
  Code code;
  Span span;
  std::string text;
};

bool IsPrefixOperator(absl::string_view text);
bool IsBinaryOperator(absl::string_view text);

// `row` is: prefix operators, an operand, and any number of times a binary operator or `? operand`
// followed by the same. Refuses chained comparisons and trees deeper than kDeepestNesting.
std::variant<ast::Expr, Refusal> BuildTree(std::vector<RowPiece> row);

}  // namespace stringline
