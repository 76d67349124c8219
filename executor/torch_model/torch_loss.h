// The values that a run trains on: a program's logits, and its loss, if any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "executor/torch_model/torch_graph.h"

namespace stringline {

struct TorchLoss {
  std::string logits;  // a row for each token
  std::string loss;    // "": the program ends with logits
};

// The loss of a run is the mean cross-entropy of the logits and the next token, over all tokens.
// InvalidArgument for a program without logits, or with several candidates; Unimplemented for a
// program with another loss.
absl::StatusOr<TorchLoss> FindLoss(const TorchGraph& graph);

}  // namespace stringline
