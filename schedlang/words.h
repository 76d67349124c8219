// The words a schedule cannot use as names: the language's own, and those kept for what is to come.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stringline {

// F, B, I, W.
bool IsActionLetter(absl::string_view text);

// A word that means something wherever it stands: `repeat`, `and`, …
bool IsKeyword(absl::string_view text);

// A keyword of a part of the language that this version does not read yet: `pipe`, `greedy`, …
bool IsFutureKeyword(absl::string_view text);

// The words a statement begins with, action letters included; for "did you mean".
const std::vector<std::string>& StatementWords();

}  // namespace stringline
