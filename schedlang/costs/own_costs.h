// The costs of a schedule's own actions (plan/rows.h), by the names of their rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Takes the keys of the plan's own actions and values from the unknown keys of its costs, at first
// CostSpec::unless_own.
void DropOwnKeys(const Plan& plan, UnknownKeys* unknown);
// The error of the first that is left.
absl::Status CheckNoneLeft(const UnknownKeys& unknown);

// True for an action that copies to another rank.
bool MovesAway(const OwnAction& row);

// Bytes a second of the links over which own copies go; 0: not said.
struct OwnLinks {
  int64_t bandwidth = 0;       // to another rank
  int64_t host_bandwidth = 0;  // to the host, which `host_sharing` ranks in order share
  int64_t host_sharing = 1;
  std::string of_some;    // the key of a link with times of its own, which copies do not know; ""
  bool is_usual = false;  // no computation has a cost
};

// The values of a key by stage; empty: it is not given.
using CostsOfKey = std::function<absl::StatusOr<std::vector<int64_t>>(const std::string& key)>;

// Adds the times of the plan's own actions. Where no costs are given they take as long as an F, and
// no time on the network; a copy may take the bytes that it moves over a link. Errors: a missing
// cost. The memory of the costs, and those of messages, are known.
absl::Status AddOwnCosts(const Plan& plan, const OwnLinks& links, const CostsOfKey& costs_of,
                         CostModel* costs);

}  // namespace stringline
