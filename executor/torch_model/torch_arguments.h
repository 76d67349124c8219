// The arguments of the known ATen ops: read by a rule, without effect on values and gradients, or
// required to have their default. Any other argument is refused: no part of a program is ignored.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/torch_model/torch_graph.h"

namespace stringline {

struct TorchOp {
  std::vector<std::string> read;
  std::vector<std::string> numbers;  // those of them that are numbers, or None
  std::vector<std::string> without_effect;
  std::map<std::string, std::string> defaults;  // {"padding_idx", "-1"}, {"weight", "None"}
};

// By name ("embedding") all ops with a rule: in raise, in patterns, or among constants.
const std::map<std::string, TorchOp>& TorchOps();

// Unimplemented for an argument of the node that is neither read, nor without effect, nor at its
// default, and for one that is read as a number and is none; the message names the argument. An op
// outside the table is left to the rules.
absl::Status CheckArguments(const TorchGraph& graph, const TorchNode& node);

}  // namespace stringline
