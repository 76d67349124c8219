// Runs every section of gpu_check in a process of its own: one that crashes, hangs or leaves the
// GPU in an error takes no other with it. What a section started ends with it, so that nothing is
// left on the GPU beside the next one.
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
// so, one that said nothing too. All of them end within most_s seconds: those for which nothing is
// left of them are skipped. `follow` is called with every row as it comes. Nothing of CUDA may have
// been called before: a process that was forked cannot use it.
std::vector<CheckRow> RunSections(const std::vector<CheckSection>& sections,
                                  const std::function<void(const CheckRow&)>& follow,
                                  int most_s = 480);

}  // namespace stringline
