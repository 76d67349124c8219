// Copies between a rank's device and its host: what they move, and how long they take.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The costs of copies as a user gives them; lists by stage, in nanoseconds.
struct HostCosts {
  std::vector<int64_t> offload;  // empty: its bytes over the bandwidth
  std::vector<int64_t> fetch;    // empty: as long as `offload`
  int64_t bandwidth = 0;         // bytes a second, each way; 0: not said
  int64_t sharing = 1;           // so many ranks, in order, share the bandwidth
  bool says_bytes = false;       // the memory of the host is given
  bool is_usual = false;         // no computation has a cost: an unknown copy takes as long as an F
};

// The ranks that share a link to their host with this one, itself among them, if `sharing` ranks in
// order share one.
int64_t SharersOf(const Plan& plan, RankId rank, int64_t sharing);

// Ranks that share a bandwidth have equal parts of it, whether others copy at the moment or not;
// the last ones may be fewer. So no copy takes longer than said, however the copies of ranks meet.
//
// Adds the times of copies, and what they hold on the host, to the costs of a plan that has any; to
// others nothing. Errors: a missing cost.
absl::Status AddCopies(const Plan& plan, HostCosts host, CostModel* costs);

}  // namespace stringline
