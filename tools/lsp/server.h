// A language server for schedules, over standard input and output.
//
// The server reports findings while a text is typed, completes and explains words, finds and
// renames names, outlines, and formats (answers.h has the list). Each message is answered before
// the next is read. Only `exit` and the end of the input end the server; a message that it cannot
// use gets an error.
#pragma once

#include <istream>
#include <ostream>

namespace stringline {

// Serves until the end. Returns the exit status: 0 after a `shutdown`, else 1.
int ServeEditor(std::istream& in, std::ostream& out);

}  // namespace stringline
