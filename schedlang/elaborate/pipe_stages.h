// Which expressions give a stage of a pipe: `down[r]`, a name for one, or what is made from one.
//
// Stages of all pipes are numbered through, so a stage that is named without its pipe would be one
// of the first pipe, or of whichever pipe has that number.
#pragma once

#include <set>
#include <vector>

#include "schedlang/elaborate/program.h"

namespace stringline {

class PipeStages {
 public:
  // `node` is the next node of the program; what it is made from has been added before.
  void AddNode(const Program& program, const ExpressionNode& node);
  // The body of the next function.
  void AddFunction(int32_t body) { functions_.push_back(Names(body)); }
  // The slot has the value of the node.
  void AddSlot(int32_t slot, int32_t node) {
    if (Names(node)) slots_.insert(slot);
  }

  // Whether the node gives a stage of a pipe: of `a ? b : c`, whether both b and c do.
  bool Names(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }

 private:
  bool NamesAny(const Program& program, int32_t first, int32_t count) const;

  std::vector<bool> nodes_;
  std::vector<bool> functions_;  // whether their bodies do, whatever they are given
  std::set<int32_t> slots_;
};

}  // namespace stringline
