// Lays out the text of a schedule: text -> text, with the same words and comments in the same
// order. Only white space changes.
//
// Lines end where the author ended them, with these exceptions: a block in which a line ends has
// its `{` at the end of a line and its `}` at the beginning of one (`} else {` stays together); a
// line of more than 100 columns opens its outermost blocks, and then puts every statement on a line
// of its own; `{ ; , ) ]` begin no line. A block adds two columns, a statement that goes on in a
// second line four. One blank stands between two words, or none where brackets, commas and dots ask
// for none. One empty line stays one, several become one.
//
// Columns are the author's: two or more blanks before a `{`, a comment, a message, a word of the
// language or one of `= : @ &`, or after one of `; , : }`, stay a gap, and what stood in one column
// over several lines still does. Such a column moves right when something in front of it needs the
// room, and a gap stays two blanks wide at least. A schedule and a `use` begin a line.
//
// The result of formatting a result is that result.
#pragma once

#include <optional>
#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"

namespace stringline {

// The laid-out text; nothing, and the parser's findings, for a text that does not parse.
std::optional<std::string> Format(const Source& source, Diagnostics* diagnostics);

}  // namespace stringline
