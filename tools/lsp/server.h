// A language server for schedules: what editors ask over standard input and output.
//
// It tells what is wrong with a text while it is typed, completes and explains words, finds and
// renames names, outlines, and formats (answers.h has the list). One message is answered before the
// next one is read. Nothing that comes in ends it but `exit` and the end of the input; what it
// cannot use it answers with an error.
#pragma once

#include <istream>
#include <ostream>

namespace stringline {

// Serves until the end. Returns the exit status: 0 after a `shutdown`, else 1.
int ServeEditor(std::istream& in, std::ostream& out);

}  // namespace stringline
