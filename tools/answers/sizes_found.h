// The answer of `search --for` in words, as JSON and as a schedule.
#pragma once

#include <ostream>
#include <string>

#include "schedlang/ask/any_size_search.h"
#include "tools/io/json.h"

namespace stringline {

void PrintSizesFound(const FoundForSizes& found, std::ostream& out);
Json SizesFoundAsJson(const FoundForSizes& found);
// The schedule as a text, with a header that says what was asked, on one line, and what it is
// worth.
std::string SizesFoundText(const std::string& asked, const FoundForSizes& found);

}  // namespace stringline
