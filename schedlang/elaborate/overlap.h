// `overlap F & B { compute { … } network { … } }` as the plan holds it: in which order the named
// parts of a group run (parts/parts.h).
#pragma once

#include <optional>

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Nothing after a finding of CheckOverlap.
std::optional<Overlap> ResolveOverlap(const ast::Overlap& written, absl::Span<const Overlap> others,
                                      Diagnostics* diagnostics);

}  // namespace stringline
