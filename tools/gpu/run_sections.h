// Runs every section of gpu_check in a process of its own: a section that crashes, hangs or leaves
// the GPU in an error affects no other. Its descendants end with it, so that none stays on the GPU
// beside the next section.
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
  int half = 1;          // 1 or 2: the command that runs it
  std::string about;     // one line for people
};

// The time of a half: of the ten minutes that a command may take, less its start.
constexpr int kHalfSeconds = 560;

// All rows, in the order of the sections; a section that crashed or was killed ends with a FAIL
// that says so, and so does a section without rows. All sections end within most_s seconds: those
// without time left are skipped. `follow` is called with every row as it comes. No function of CUDA
// may have been called before: a forked process could not use CUDA.
std::vector<CheckRow> RunSections(const std::vector<CheckSection>& sections,
                                  const std::function<void(const CheckRow&)>& follow,
                                  int most_s = kHalfSeconds);

}  // namespace stringline
