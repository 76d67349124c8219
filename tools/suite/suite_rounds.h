// A suite from its file to its results: every case once, and again, so that what the machine does
// meanwhile meets all of them alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/suite/prepared_case.h"
#include "tools/suite/results.h"

namespace stringline {

struct SuiteWatch {
  // Asked several times a second: true ends the suite, and what is under way counts for nothing.
  std::function<bool()> stop;
  // Before every measurement: what it is, how many are done, of how many.
  std::function<void(const std::string& doing, int done, int all)> begins;
};

struct MeasuredSuite {
  SuiteResults results;
  int measured = 0;  // repetitions, of both sides
  int kept = 0;      // that were in the file already
  bool stopped = false;
};

// All cases of the suite, made ready; with `again` orders of search blocks are searched for anew.
absl::StatusOr<std::vector<PreparedCase>> PrepareCases(const Suite& suite, bool again);

// Measures what `out` does not hold yet; with `again` all, and nothing that was
// found before is used. The file is written after every
// repetition, whole. What cannot be measured has its reason there; it is tried again next time.
//
// Errors: a file that cannot be read or written; FailedPrecondition for one that holds results of
// another machine or another build.
absl::StatusOr<MeasuredSuite> MeasureSuite(const Suite& suite, const std::string& out, bool again,
                                           const SuiteWatch& watch);

}  // namespace stringline
