// What to tell the user where a text stopped making sense.
#pragma once

#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/text/tokens.h"

namespace stringline {

// Adds the one finding about a text that stops making sense at tokens[index], where the grammar
// would have liked `expected`: "expected ')' before ';'". Some common mistakes get better words: a
// misspelt statement, a string or a bracket that is never closed.
void AddSyntaxFinding(const std::vector<Token>& tokens, size_t index, const std::string& expected,
                      Diagnostics* diagnostics);

}  // namespace stringline
