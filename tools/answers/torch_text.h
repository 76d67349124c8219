// A plan as a file of torch.distributed.pipelining: the answer of `export`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"

namespace stringline {

// The values of `form`: "torch-compute", "torch-comms", …
std::vector<std::string> TorchForms();

// The text for a session of OpenPlan. Sends and receives stand where a step at these costs wants
// them. Nothing if `opened` has findings then: the checker's, and features that the notation lacks.
// Errors: an unknown form, invalid costs.
absl::StatusOr<std::optional<std::string>> TorchTextOf(Session* opened, const std::string& form,
                                                       const CostRequest& request);

}  // namespace stringline
