// The expressions whose value is a stage of a pipe: `down[r]`, a name for it, or an expression made
// from it.
//
// Stages of all pipes are numbered through, so a number without a pipe would mean a stage of the
// first pipe, or of any pipe that contains the number.
#pragma once

#include <set>
#include <vector>

#include "schedlang/elaborate/program.h"

namespace stringline {

class PipeStages {
 public:
  // `node` is the next node of the program; its operands have been added before.
  void AddNode(const Program& program, const ExpressionNode& node);
  // The body of the next function.
  void AddFunction(int32_t body) { functions_.push_back(Names(body)); }
  // The slot has the value of the node.
  void AddSlot(int32_t slot, int32_t node) {
    if (Names(node)) slots_.insert(slot);
  }

  // True if the node gives a stage of a pipe; `a ? b : c` if both b and c do.
  bool Names(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }

 private:
  bool NamesAny(const Program& program, int32_t first, int32_t count) const;

  std::vector<bool> nodes_;
  std::vector<bool> functions_;  // true if their bodies do, whatever their arguments
  std::set<int32_t> slots_;
};

}  // namespace stringline
