// Text -> ast. The first phase; grammar.cc alone knows the grammar (and, with terminals.h, Boost).
#pragma once

#include <optional>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Every schedule of a `.sched` file, in the order written. On a syntax error: nothing, and a single
// finding at the place where the text stopped making sense. Nesting is bounded (kDeepestNesting);
// any text, also binary, ends in a finding and never in a crash. Files in `use` are named, not read
// (uses.h). Places are counted from `first_offset` on.
std::optional<ast::File> Parse(const Source& source, Diagnostics* diagnostics,
                               uint32_t first_offset = 0);

// The deepest nesting of expressions and of blocks.
inline constexpr int kDeepestNesting = 200;

}  // namespace stringline
