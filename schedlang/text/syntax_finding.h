// The finding at the place where a text stopped making sense.
#pragma once

#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/text/tokens.h"

namespace stringline {

// Adds the finding for a text that stops making sense at tokens[index], where the grammar expected
// `expected`: "expected ')' before ';'". Some common mistakes get better words: a misspelt
// statement, a string or a bracket that is never closed.
void AddSyntaxFinding(const std::vector<Token>& tokens, size_t index, const std::string& expected,
                      Diagnostics* diagnostics);

// "; write 1000" for 1e3, and similar hints for texts that are no numbers; often empty.
std::string HintForNumber(absl::string_view text);

}  // namespace stringline
