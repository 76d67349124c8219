// The files behind `use` in a text that an editor holds.
#pragma once

#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"

namespace stringline {

// The path of a `file:` URI, with %20 and the like decoded; any other URI unchanged.
std::string PathOfUri(const std::string& uri);

// Adds the findings of `from` to *to. A finding in a used file is moved to `place`, a part of the
// text itself, or to the `use` named in a note of the finding: an editor shows findings of a text
// in this text.
void AppendFindings(const Diagnostics& from, const Source& source, Span place, Diagnostics* to);

}  // namespace stringline
