// The number of layers of each stage, in the order of the stages.
//
// The embedding goes to the first stage and the head with the loss to the last, whatever the
// numbers; a stage in between needs a layer, since a stage without work is no stage.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline {

// As equal as `layers` allows; the first stages get the surplus. InvalidArgument for more stages
// than layers.
absl::StatusOr<std::vector<int>> SplitEven(int layers, int stages);

// The split with the fastest slowest stage: every layer takes `layer`, and the first and the last
// stage take `first` and `last` besides (any unit). Of several such splits the one with the fewest
// layers in the last stages. Errors as SplitEven.
absl::StatusOr<std::vector<int>> SplitBalanced(int layers, int stages, double first, double layer,
                                               double last);

// The same for layers with different times: the fastest slowest stage, and of several such splits
// the one with the fewest layers in the last stages.
absl::StatusOr<std::vector<int>> SplitBalanced(const std::vector<double>& layers, int stages,
                                               double first, double last);

// InvalidArgument unless the numbers add up to `layers` and every stage has work: at least one
// layer, except the first and the last of several, which may have none.
absl::Status CheckLayers(int layers, const std::vector<int>& layers_per_stage);

}  // namespace stringline
