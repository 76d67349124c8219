// Lays out the text of a schedule: text -> text, with the same words and comments in the same
// order. Only white space changes.
//
// Lines end where the author ended them, with these exceptions: a block in which a line ends has
// its `{` at the end of a line and its `}` at the beginning of a line (`} else {` stays together);
// a line of more than 100 columns opens its outermost blocks, and then puts every statement on its
// own line; `{ ; , ) ]` begin no line. A block adds two columns, the second line of a statement
// four. A single blank separates two words, or none beside brackets, commas and dots. Several empty
// lines become one.
//
// Columns are the author's: two or more blanks before a `{`, a comment, a message, a word of the
// language or one of `= : @ &`, or after one of `; , : }`, stay a gap, and pieces aligned over
// several lines stay aligned. Such a column moves right when the text before it needs the room; a
// gap stays at least two blanks wide. A schedule and a `use` begin a line.
//
// Formatting is idempotent.
#pragma once

#include <optional>
#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"

namespace stringline {

// The laid-out text; for a text that does not parse, nothing, and the parser's findings.
std::optional<std::string> Format(const Source& source, Diagnostics* diagnostics);

}  // namespace stringline
