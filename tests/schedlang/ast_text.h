// The ast as s-expressions, for tests that compare texts: (repeat (- P r) (F r)).
#pragma once

#include <string>

#include "schedlang/text/ast.h"

namespace stringline {

std::string TextOf(const ast::Expr& expr);
std::string TextOf(const ast::Statement& statement);
std::string TextOf(const ast::File& file);  // a line per schedule

}  // namespace stringline
