// Where the stages of a searched schedule may live, and how its layers are shared out there.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/plan.h"
#include "schedlang/search/partition.h"

namespace stringline {

struct SearchPlace {
  Plan plan;                    // its stages, no actions
  search::Partition partition;  // as the schedule says it; where that is free, one that is balanced
  bool is_free = false;
};

// All places that the block lets the stages have and that have a layer for each stage: at least
// one. Empty after a finding. `plan` has the stages and the split that the schedule says.
std::vector<SearchPlace> PlacesOf(const OrderRules& rules, const SplitStep* split, const Plan& plan,
                                  Diagnostics* diagnostics);

// `rules` must outlive it.
search::Partitioning PartitioningOf(const OrderRules& rules, const SearchPlace& place);

}  // namespace stringline
