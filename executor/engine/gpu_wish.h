// The machine's GPUs requested by a run for the ranks of a process.
#pragma once

#include <vector>

namespace stringline {

struct GpuWish {
  int count = 1;              // the first `count` of the machine; 0: all that ranks can use
  std::vector<int> ordinals;  // exactly these; empty: by `count`

  bool IsDefault() const { return count == 1 && ordinals.empty(); }
};

}  // namespace stringline
