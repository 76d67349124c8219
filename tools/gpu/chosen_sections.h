// The sections that a command line of gpu_check asks for, and what is said of the others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/gpu/run_sections.h"

namespace stringline {

struct ChosenSections {
  std::string table;                            // its name, without ".md"
  std::vector<std::vector<CheckSection>> runs;  // one after the other, each in kHalfSeconds
};

// `words`: "first", "second", names of sections, or none for both halves. Two commands, one for
// each half, keep two tables. NotFound: an unknown word.
absl::StatusOr<ChosenSections> ChooseSections(const std::vector<CheckSection>& all,
                                              const std::vector<std::string>& words);

// The rows until now, and a SKIP with its reason for every section that has none: it was not asked
// for, or has not begun. So a table that is cut short says so.
std::vector<CheckRow> WithSectionsLeftOut(std::vector<CheckRow> rows,
                                          const std::vector<CheckSection>& all,
                                          const ChosenSections& chosen);

// For --help: a line a section, under its half.
std::string DescribeSections(const std::vector<CheckSection>& all);

}  // namespace stringline
