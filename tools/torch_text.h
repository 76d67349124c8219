// A plan as a file of torch.distributed.pipelining: the answer of `export`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/session.h"

namespace stringline {

// What `form` may be: "torch-compute", "torch-comms", …
std::vector<std::string> TorchForms();

// Of a session that OpenPlan gave. Sends and receives stand where a step at these costs wants them.
// Nothing where `opened` has findings then: those of the checker, and what the notation cannot say.
// Errors: a form that is none, costs that cannot be.
absl::StatusOr<std::optional<std::string>> TorchTextOf(Session* opened, const std::string& form,
                                                       const CostRequest& request);

}  // namespace stringline
