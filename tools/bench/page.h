// Results of a suite as a page in Markdown, our figures beside torch's, and as a table for a
// terminal.
#pragma once

#include <string>

#include "tools/bench/results.h"

namespace stringline {

std::string PrintPage(const SuiteResults& results);
std::string PrintTable(const SuiteResults& results);

}  // namespace stringline
