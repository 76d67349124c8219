// The shares of slices and of unequal microbatches in what the usual microbatch takes.
//
// Products, messages, copies and values grow with the tokens; attention grows with the square of a
// sequence's length. A slice has its share of the tokens, and of the attention what its queries
// have with all keys so far. UPDATE, collectives and latencies are those of a step.
//
// Costs are of the usual microbatch: that of factor 1; of a model's shape; or else, where
// microbatches are given in tokens, one with the mean of their tokens and the mean of their
// attention.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/formula.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Turns costs of usual microbatches into those of the plan's slices and of the microbatches that
// `spec` gives. Values have the size that they have in the largest one. The shares of attention are
// those of `attention`, in millionths by stage, or of the formulas. Errors: costs of parts; another
// number of microbatches than a step of the plan has.
absl::Status ShareOut(const Plan& plan, const std::vector<StageFormula>& formulas,
                      const std::vector<int64_t>& attention, const CostSpec& spec,
                      CostModel* costs);

// The factors for which an order was made.
UnequalMicrobatches MicrobatchesOf(const OrderCosts& order);

// The share of the largest microbatch in the cost of the usual one, and of the one with the fewest
// tokens in its messages; 1 where microbatches are alike.
double LargestShare(const MicrobatchShares& shares);
double FewestTokens(const MicrobatchShares& shares);

// The same work in equal microbatches; costs of unequal ones.
CostModel WithEqualMicrobatches(CostModel costs);
// The same microbatches, the longest first, or the shortest. Pipes take turns.
CostModel WithSortedMicrobatches(CostModel costs, bool longest_first);

}  // namespace stringline
