// What the Python package asks of the library, without a word of Python: calls by name, from a
// request as JSON and steps that earlier calls gave, to an answer.
//
// The options of a request are those of the command line ("--layout=pair"), read by the same
// parser, so that names, limits and messages are known in one place.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/json.h"
#include "tools/session.h"

namespace stringline::python {

// A plan, or a plan with its timeline. It never changes, so several threads may read it.
using Step = std::shared_ptr<const Session>;

struct Request {
  // Of most calls: `args`, options as on a command line; `file`, with `text` only its name; of
  // costs `costs_text`, the text of the file that `--costs` names.
  Json json;
  std::vector<Step> steps;
  std::function<bool()> stopped;  // whether nobody waits for the answer any more
};

struct Answer {
  std::string text;  // as the command prints it
  Json figures;      // as it answers with --json
  Step step;         // null where there is none
  // What is wrong with a text: then nothing else is there.
  std::optional<Json> findings;
};

// Errors: no call of that name; what the command line would refuse with exit status 2; Cancelled
// once `stopped` says so. Throws std::bad_alloc.
absl::StatusOr<Answer> Call(const std::string& name, const Request& request);

}  // namespace stringline::python
