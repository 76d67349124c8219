// What `search` asks and answers, for those who have no command line.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "tools/flags.h"
#include "tools/json.h"
#include "tools/search/search_session.h"

namespace stringline {

// Of costs what is given, not what the flags say. Errors: flags that cannot be, or do not go
// together.
absl::StatusOr<SearchRequest> SearchRequestOf(const Flags& flags, const CostRequest& of_costs);

void PrintFound(const FoundSchedule& found, std::ostream& out);
Json FoundAsJson(const FoundSchedule& found);
// The schedule as a text, with a header that says what was asked: what --emit writes.
absl::StatusOr<std::string> EmittedText(const Flags& flags, const FoundSchedule& found);

}  // namespace stringline
