// What a training run leaves behind.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/train.h"

namespace stringline {

struct RunFiles {
  std::string measured;   // the last step as it happened: stringline show
  std::string simulated;  // the same step in virtual time
  std::string costs;      // what its actions cost: stringline sim --costs
  std::string losses;     // step,loss: one line a step
};

// Makes the folder if it is not there. The message names it.
absl::Status PrepareFolder(const std::string& folder);

// Writes the four files into the folder, each whole or not at all.
absl::StatusOr<RunFiles> WriteRunFiles(const std::string& folder, const TrainResult& result);

// A cost model as the YAML that --costs reads.
std::string PrintCosts(const CostModel& costs);

}  // namespace stringline
