// What `use` means in a text that an editor holds.
#pragma once

#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"

namespace stringline {

// The path that a `file:` URI names, with its %20s read; any other URI as it is.
std::string PathOfUri(const std::string& uri);

// Adds the findings of `from` to *to. One that lies in a file that is used is told at `place`, a
// part of the text itself, or where a note of it says that the file is used: an editor shows
// findings of a text in that text.
void AppendFindings(const Diagnostics& from, const Source& source, Span place, Diagnostics* to);

}  // namespace stringline
