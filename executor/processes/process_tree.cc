#include "executor/processes/process_tree.h"

#include <algorithm>
#include <cstdint>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

std::vector<ProcessBlock> ChildrenOf(const ProcessBlock& block, int fan_out) {
  const int first = block.first + 1, rest = block.size() - 1;
  const int count = std::min(fan_out, rest);
  const auto begin_of = [&](int child) {
    return first + static_cast<int>(int64_t{child} * rest / count);
  };
  std::vector<ProcessBlock> children;
  for (int c = 0; c < count; ++c) children.push_back({begin_of(c), begin_of(c + 1)});
  return children;
}

}  // namespace

TreePlace PlaceInTree(int process, int processes, int fan_out) {
  SL_CHECK(process >= 0 && process < processes && fan_out > 0) << process << " of " << processes;
  TreePlace place;
  place.block = {0, processes};
  place.children = ChildrenOf(place.block, fan_out);
  while (place.block.first != process) {
    place.parent = place.block.first;
    place.block = *std::find_if(place.children.begin(), place.children.end(),
                                [&](const ProcessBlock& child) { return process < child.end; });
    place.children = ChildrenOf(place.block, fan_out);
  }
  return place;
}

}  // namespace stringline
