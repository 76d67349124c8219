// A suite from its file to its results: rounds over all cases, so that disturbances of the machine
// meet all cases alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/prepared_case.h"
#include "tools/bench/results.h"

namespace stringline {

struct SuiteWatch {
  // Called several times a second: true ends the suite; the repetition under way does not count.
  std::function<bool()> stop;
  // Called before every measurement: its name, the number done, the number of all.
  std::function<void(const std::string& doing, int done, int all)> begins;
};

struct MeasuredSuite {
  SuiteResults results;
  int measured = 0;  // repetitions, of both sides
  int kept = 0;      // found in the file
  bool stopped = false;
};

// All cases of the suite, made ready; with `again` orders of search blocks are searched for anew.
absl::StatusOr<std::vector<PreparedCase>> PrepareCases(const Suite& suite, bool again);

// Measures the repetitions that `out` lacks; with `again` all of them, without any earlier results
// or found orders. The file is written whole after every repetition. A case that cannot be measured
// has its reason there, and is tried again next time.
//
// Errors: a file that cannot be read or written; FailedPrecondition for results of another machine
// or another build.
absl::StatusOr<MeasuredSuite> MeasureSuite(const Suite& suite, const std::string& out, bool again,
                                           const SuiteWatch& watch);

}  // namespace stringline
