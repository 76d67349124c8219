// Where a command's words go, and the two ways in which it can fail.
//
// Standard output holds what the command was asked for, and nothing else; standard error holds why
// it could not be had. With --json the answer is exactly one JSON object on standard output,
// whatever happens.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"

namespace stringline {

// What the process returns. A training run that a signal stopped returns 128 and its number more.
enum ExitStatus : int {
  kOk = 0,
  kFindings = 1,  // the text says something that is wrong
  kUsage = 2,     // the command line, or a file that cannot be used at all
};

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool json = false;
  // Where a file called "-" goes. It is standard output; what a command says beside it, `out`, goes
  // to standard error then.
  std::ostream* file = nullptr;
};

// Writes a file that the command line asks for (write_file.h); "-" is standard output.
absl::Status WriteAsked(const Output& output, const std::string& path, absl::string_view text);

// Says why the command cannot do its work. Returns kUsage.
int Fail(const Output& output, absl::string_view message);

// Answers with a text: in the file `path`, or without one on standard output. With --json the text
// is in the object as well. Returns kOk, or kUsage when the file cannot be written.
int Deliver(const std::string& text, const std::string& path, const Output& output);

// Shows findings about `source`: on `stream` as people read them, or as JSON. Returns kFindings.
int ShowFindings(const Output& output, std::ostream& stream, const Diagnostics& diagnostics,
                 const Source& source);

}  // namespace stringline
