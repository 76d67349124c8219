// The number in the name of a message's call (Call::name): computed from the content alone, so that
// both ends of a message agree on it, and different for all other messages of a step.
#pragma once

#include <cstdint>

#include "schedlang/plan/plan.h"

namespace stringline {

struct MessageName {
  bool gradient = false;  // an input gradient going back, else an activation going on
  int32_t edge = 0;       // the number of its edge in the plan's graph
  MicrobatchId microbatch;
};

inline int64_t NumberOfMessage(const Plan& plan, const MessageName& name) {
  const int64_t value = int64_t{name.edge} * plan.microbatches + name.microbatch.value;
  return 2 * value + (name.gradient ? 1 : 0);
}

inline MessageName NameOfMessage(const Plan& plan, int64_t number) {
  const int64_t value = number / 2;
  return {number % 2 == 1, static_cast<int32_t>(value / plan.microbatches),
          MicrobatchId(static_cast<int32_t>(value % plan.microbatches))};
}

}  // namespace stringline
