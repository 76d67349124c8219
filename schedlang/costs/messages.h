// The times of a plan's messages, from the costs of links between ranks and nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The bytes of an activation that moves over the edge: of its own, or of its sender. `message`: by
// stage; empty: not said.
int64_t BytesOver(const CostSpec& spec, const std::vector<int64_t>& message, const Edge& edge);

// Adds the times of messages. Errors: a bandwidth without sizes; links that the plan does not have.
absl::Status AddMessages(const Plan& plan, const CostSpec& spec,
                         const std::vector<int64_t>& message, CostModel* costs);

}  // namespace stringline
