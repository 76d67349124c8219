// The places allowed for the stages of a searched schedule, each with a partition of its layers.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/partition.h"

namespace stringline {

struct SearchPlace {
  Plan plan;                    // its stages, no actions
  search::Partition partition;  // as given by the schedule; if free, a balanced one
  bool is_free = false;
};

// All places allowed by the block with a layer for each stage: at least one. Empty after a finding.
// `plan` has the stages and the split given by the schedule.
std::vector<SearchPlace> PlacesOf(const OrderRules& rules, const SplitStep* split, const Plan& plan,
                                  Diagnostics* diagnostics);

// `rules` must outlive the result.
search::Partitioning PartitioningOf(const OrderRules& rules, const SearchPlace& place);

}  // namespace stringline
