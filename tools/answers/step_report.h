// The uses of a step's time, in words and as JSON: the answer of `report`.
#pragma once

#include <ostream>

#include "schedlang/ask/step_answers.h"
#include "tools/io/json.h"

namespace stringline {

void PrintReport(const Session& step, const TimeReport& report, std::ostream& out);
Json ReportAsJson(const Session& step, const TimeReport& report);

}  // namespace stringline
