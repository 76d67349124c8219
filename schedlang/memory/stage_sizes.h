// How many bytes a stage needs, for whoever counts what a rank holds.
#pragma once

#include <array>
#include <cstdint>

#include "schedlang/values.h"

namespace stringline {

struct StageSizes {
  int64_t resident = 0;      // always there: parameters, gradients, optimizer state, data
  StageBytes of_microbatch;  // what it takes in and gives at the ends of the model is not there
  int64_t gathered = 0;      // from UNSHARD to RESHARD: parameters of all ranks that share them
  // Its B is an I and then a W, part by part, with a stash between; other work may come between
  // its parts.
  bool in_parts = false;
  // By ActionKind, F, B, I and W: what the action takes while it runs, beside values.
  std::array<int64_t, 4> temporaries = {};
};

}  // namespace stringline
