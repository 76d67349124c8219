// The bytes that a stage needs, for all who count a rank's memory.
#pragma once

#include <array>
#include <cstdint>

#include "schedlang/plan/plan.h"
#include "schedlang/plan/values.h"

namespace stringline {

struct StageSizes {
  int64_t resident = 0;      // always held: parameters, gradients, optimizer state, data
  StageBytes of_microbatch;  // without the model's input and the gradient of its output
  int64_t gathered = 0;      // from UNSHARD to RESHARD: parameters of all ranks that share them
  // Its B is an I and then a W, part by part, with a stash between; other work may come between
  // its parts.
  bool in_parts = false;
  // By kind of computation: the bytes of the action while it runs, beside values.
  std::array<int64_t, kComputeKinds> temporaries = {};
};

}  // namespace stringline
