// A choice in the words of Megatron-LM and of TorchTitan: the flags that mean the same, and a
// remark for what a framework does otherwise or has not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/costs/formula.h"
#include "schedlang/tune/choice.h"

namespace stringline::tune {

struct FrameworkQuestion {
  ModelShape model;
  Choice choice;
  int64_t global_batch = 0;
  std::vector<int> layers;  // of each stage
  bool found = false;       // the order is the optimiser's, of the schedule's stages
};

// Flags of pretrain_gpt.py, one a line; remarks begin with #.
std::string MegatronFlags(const FrameworkQuestion& question);
// Keys of a TorchTitan job file.
std::string TorchTitanKeys(const FrameworkQuestion& question);

}  // namespace stringline::tune
