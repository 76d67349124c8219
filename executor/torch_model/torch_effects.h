// Effects of a program besides its values: gradients that stop, memory shared by two parameters,
// types that round. A raised graph has none of them, so a program with such an effect is refused.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/torch_model/torch_graph.h"

namespace stringline {

// Unimplemented for the first effect among the dependencies of these values, and for arguments of
// ops that no rule reads (torch_arguments.h). The program has no writes (torch_writes.h).
// Parameters with requires_grad=False are no effect (Param::frozen), and neither is no_grad where
// nothing depends on a parameter that is trained.
// `truths`: comparisons of values with gradients, and their conversion to whole numbers, are no
// effect.
absl::Status CheckEffects(const TorchGraph& graph, const Pt2Archive& archive,
                          const std::vector<std::string>& values, bool truths = false);

}  // namespace stringline
