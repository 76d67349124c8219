// Which GPUs of the machine a run wishes for the ranks of one process.
#pragma once

#include <vector>

namespace stringline {

struct GpuWish {
  int count = 1;              // the first so many of the machine; 0: all that ranks can use
  std::vector<int> ordinals;  // these; empty: by `count`

  bool IsDefault() const { return count == 1 && ordinals.empty(); }
};

}  // namespace stringline
