// A copy of the training's state in a process's memory, as the processes of a run name it to each
// other. The state is cut into shares, one for each process with other values than the rest.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stringline {

struct HeldVersion {
  int layout = 0;  // the times that the run's processes had changed when it was taken
  int64_t step = 0;
  int shares = 1;          // that make up the whole state
  std::vector<int> holds;  // the numbers of those in this process, ascending

  // Newer versions are greater.
  std::pair<int, int64_t> age() const { return {layout, step}; }
};

}  // namespace stringline
