// The table of instructions that compute: on registers, thread by thread or warp by warp.
//
// Loads, stores, branches and barriers are not in it; decode.cc has them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {

// To add an instruction, add a row: its whole name, the bytes of its operands, results first, and
// what it does. A name ends with ":2=1" if operands are lists in braces, here of two results and
// one argument.
struct Operation {
  const char* name;
  std::vector<int> bytes;
  void (*apply)(const Step&, const Lanes&);
  int mask = -1;  // the operand that holds the mask of its lanes; -1: kAllLanes or kEach
  Kind kind = Kind::kEach;
  bool carries = false;  // uses the carry flag, the operand after the last
};

// Null: not known.
const Operation* FindOperation(absl::string_view name);
const std::vector<Operation>& AllOperations();

}  // namespace stringline::ptx
