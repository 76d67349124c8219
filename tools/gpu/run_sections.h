// Runs every section of gpu_check in a process of its own: one that crashes, hangs or leaves the
// GPU in an error takes no other with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/gpu/check_rows.h"

namespace stringline {

struct CheckSection {
  std::string name;
  std::function<void(CheckRows*)> run;
  int deadline_s = 120;  // then its process is killed
};

// All rows, in the order of the sections; one that crashed or was killed ends with a FAIL that says
// so, one that said nothing too. `follow` is called with every row as it comes. Nothing of CUDA may
// have been called before: a process that was forked cannot use it.
std::vector<CheckRow> RunSections(const std::vector<CheckSection>& sections,
                                  const std::function<void(const CheckRow&)>& follow);

}  // namespace stringline
