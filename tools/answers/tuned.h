// The answer of `tune` in words, as JSON, as a picture of throughput over memory and as a page.
#pragma once

#include <ostream>
#include <string>

#include "schedlang/tune/tune.h"
#include "tools/io/json.h"

namespace stringline {

void PrintTuned(const tune::TunedChoices& tuned, std::ostream& out);
Json TunedAsJson(const tune::TunedChoices& tuned);
std::string TunedSvg(const tune::TunedChoices& tuned);
// `asked`: the question, on one line.
std::string TunedPage(const tune::TunedChoices& tuned, const std::string& asked);
// Why no choice fits: the nearest one, and how much it lacks.
std::string PrintMiss(const tune::TunedChoices& tuned);

}  // namespace stringline
