// The request and the answer of `search`, also for callers without a command line.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/base/stop.h"
#include "tools/io/flags.h"
#include "tools/io/json.h"

namespace stringline {

// Of costs what is given, not what the flags say. Errors: flags that cannot be, or do not go
// together; Cancelled where `stop` (null: never) is wished while a file is read. It is the
// request's, too.
absl::StatusOr<SearchRequest> SearchRequestOf(const Flags& flags, const CostRequest& of_costs,
                                              const Stop* stop);

void PrintFound(const FoundSchedule& found, std::ostream& out);
Json FoundAsJson(const FoundSchedule& found);
// The schedule as a text, with a header that says what was asked: what --emit writes. In its
// plainest form where `stop` (null: never) is wished.
absl::StatusOr<std::string> EmittedText(const Flags& flags, const FoundSchedule& found,
                                        const Stop* stop);

}  // namespace stringline
