// The tree of a run's processes, by which what all give comes to process 0 and what all get comes
// from it. Each process stands for a block of processes, of which it is the first; the others are
// shared out to at most so many children, as evenly as possible. So neighbours in number, which
// mostly share a host, are neighbours in the tree, and texts of a block are in the order of its
// processes.
#pragma once

#include <vector>

namespace stringline {

// Processes first to end - 1.
struct ProcessBlock {
  int first = 0, end = 0;
  int size() const { return end - first; }
};

struct TreePlace {
  int parent = -1;  // none of process 0
  ProcessBlock block;
  std::vector<ProcessBlock> children;  // each begins with the child
};

// The children that a process has at most, unless a test wants another tree.
inline constexpr int kTreeFanOut = 8;

TreePlace PlaceInTree(int process, int processes, int fan_out);

}  // namespace stringline
