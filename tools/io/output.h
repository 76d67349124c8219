// The streams of a command's output, and the two ways in which a command can fail.
//
// Standard output holds only the command's answer; standard error holds the reason for a missing
// answer. With --json the answer is exactly one JSON object on standard output, whatever happens.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"

namespace stringline {

// The exit status. A training run stopped by a signal returns 128 plus the signal's number.
enum ExitStatus : int {
  kOk = 0,
  kFindings = 1,  // the text has errors
  kUsage = 2,     // the command line is wrong, or a file cannot be used at all
  kLost = 3,      // `run`: a process of the run was lost, or did not answer in time
  kLeft = 4,      // `run`: others of the run go on, without this process (heal)
};

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool json = false;
  // The stream of a file called "-", which is standard output; `out`, for messages beside the file,
  // is standard error then.
  std::ostream* file = nullptr;
};

// Writes a file named on the command line (write_file.h); "-" is standard output.
absl::Status WriteAsked(const Output& output, const std::string& path, absl::string_view text);

// The message with fields of questions as this command line's options (base/fields.h).
std::string WithOptions(absl::string_view message);
// Says why the command cannot do its work; WithOptions of the message. Returns kUsage.
int Fail(const Output& output, absl::string_view message);

// Answers with a text: in the file `path`, or without one on standard output. With --json the text
// is in the object as well. Returns kOk, or kUsage when the file cannot be written.
int Deliver(const std::string& text, const std::string& path, const Output& output);

// Shows findings about `source`: on `stream` as people read them, or as JSON. Returns kFindings.
int ShowFindings(const Output& output, std::ostream& stream, const Diagnostics& diagnostics,
                 const Source& source);

}  // namespace stringline
