// The library's side of the Python package, without Python's interface: calls by name, from a
// request as JSON and steps of earlier calls, to an answer.
//
// A request's fields are the keywords of the package (questions.h); errors name them so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "tools/io/json.h"

namespace stringline::python {

// A plan, or a plan with its timeline. A step never changes, so several threads may read the same
// step.
using Step = std::shared_ptr<const Session>;

struct Request {
  Json json;  // a question, or parts of several
  std::vector<Step> steps;
  std::function<bool()> stopped;  // true if the caller no longer waits
};

struct Answer {
  std::string text;  // in the printed form
  Json figures;      // in the form of --json
  Step step;         // null without a step
  // The findings about a text: then all other fields are empty.
  std::optional<Json> findings;
};

// Errors: an unknown name; everything that the command line refuses with exit status 2; Cancelled
// once `stopped` returns true. Throws std::bad_alloc.
absl::StatusOr<Answer> Call(const std::string& name, const Request& request);

}  // namespace stringline::python
