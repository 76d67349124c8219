// The answer of `search` in words, as JSON and as a schedule.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/base/stop.h"
#include "tools/io/json.h"

namespace stringline {

void PrintFound(const FoundSchedule& found, std::ostream& out);
Json FoundAsJson(const FoundSchedule& found);

// The question of a found schedule, as far as its text repeats it.
struct FoundQuestion {
  std::string asked;     // for people, on one line
  int activations = -1;  // SearchQuestion::activations
};
// The schedule as a text, with a header that says what was asked. In its plainest form where `stop`
// (null: never) is wished.
absl::StatusOr<std::string> EmittedText(const FoundQuestion& question, const FoundSchedule& found,
                                        const Stop* stop);

}  // namespace stringline
