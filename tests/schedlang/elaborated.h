// A schedule's text, elaborated, as text: most tests of the language compare these.
#pragma once

#include <string>
#include <vector>

#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/uses.h"

namespace stringline {

// The plan's text form, or the rendered findings, which name the file `x.sched`. A plan together
// with findings, or neither, fails the calling test. The text may use the files of schedules/.
std::string Elaborated(const std::string& text, const std::vector<Parameter>& parameters,
                       const ElaborateLimits& limits = {}, const std::string& schedule = "");

// Reads the files that a test's text uses from this folder of the source tree.
ReadUsed UsedFrom(const std::string& folder);

// "P=2 M=4 V=3" as parameters.
std::vector<Parameter> ParametersOf(const std::string& text);

// The whole file under the source tree, which must exist: "schedules/1f1b.sched".
std::string ReadTestFile(const std::string& path);

}  // namespace stringline
