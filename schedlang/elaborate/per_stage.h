// Values for every stage of a pipe: layers, costs.
#pragma once

#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"

namespace stringline {

// Evaluates `said` for the stages 0 .. stages - 1 of a pipe and calls `take(node, value)` for each
// value: a single value for all stages, those of the list, or a value for each stage. False as soon
// as `take` returns false, or the evaluator fails.
template <typename Take>
bool ForEachValue(const PerStageStep& said, int stages, Evaluator* evaluator, Take take) {
  const auto value_of = [&](int32_t node) {
    const int64_t value = evaluator->Evaluate(node);
    return !evaluator->failed() && take(node, value);
  };
  if (said.slot < 0) {
    for (const int32_t node : said.nodes) {
      if (!value_of(node)) return false;
    }
    return true;
  }
  for (int stage = 0; stage < stages; ++stage) {
    evaluator->Set(said.slot, stage);
    if (!value_of(said.nodes.front())) return false;
  }
  return true;
}

}  // namespace stringline
