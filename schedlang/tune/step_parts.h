// The uses of a choice's step: what computes, what is done again, and what is waited for. Each kind
// of communication counts as far as it is exposed: by how much the step is shorter once it takes no
// time, with what was taken away before it. So the parts add up to the step.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/plan_cache.h"

namespace stringline::tune {

enum class StepPart : uint8_t {
  kCompute,   // the mean of all ranks
  kAgain,     // of forwards that are done again
  kBubble,    // idle even if nothing waits for the network, the mean of all ranks
  kLayers,    // collectives inside layers: of tensor, context and expert parallelism
  kPipeline,  // messages between stages
  kData,      // gathers and reductions of copies
  kBehind,    // the optimizer's step, with what is exposed of gathering what it updated
  kJitter,    // waits for times that are drawn at random
};
inline constexpr int kStepParts = 8;

struct StepParts {
  std::array<int64_t, kStepParts> ns = {};
  int64_t step_ns = 0;

  int64_t& operator[](StepPart part) { return ns[static_cast<size_t>(part)]; }
  int64_t operator[](StepPart part) const { return ns[static_cast<size_t>(part)]; }
  double ShareOf(StepPart part) const {
    return step_ns == 0 ? 0 : static_cast<double>((*this)[part]) / static_cast<double>(step_ns);
  }
};

// "exposed tensor-parallel communication": in a choice that has such ranks.
std::string NameOf(StepPart part, const Choice& choice);

// `prepared` is the order of the choice. Errors: those of its costs.
absl::StatusOr<StepParts> StepPartsOf(const BaseCosts& base, const Choice& choice,
                                      const PreparedPlan& prepared);

// "6.1 % slower: 4.0 % of the best step more bubble, 2.3 % more …": why a choice is worse than the
// best, by the parts that grow most.
std::string WhyWorse(const StepParts& best, const StepParts& other, const Choice& choice);

}  // namespace stringline::tune
