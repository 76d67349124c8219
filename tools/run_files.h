// What a training run leaves behind.
//
// Under these names stands only what a run wrote that reached its end. While it trains, and after
// one that did not get there, its losses are in `losses.csv.part`, and what an earlier run left has
// `.old` behind its names; the next run that ends removes these. One that failed may leave flight
// records, too (flight_records.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/train.h"
#include "schedlang/base/new_file.h"

namespace stringline {

struct RunFiles {
  std::string measured;   // the last step as it happened: stringline show
  std::string simulated;  // the same step in virtual time
  std::string costs;      // what its actions cost: stringline sim --costs
  std::string losses;     // step,loss_nats,grad_norm,learning_rate: one line a step
};

// Makes the folder if it is not there, and writes and removes a small file in it. The message names
// the folder.
absl::Status TryFolder(const std::string& folder);

// Gives the results of an earlier run the names that end in `.old`.
absl::Status SetResultsAside(const std::string& folder);

// The losses of a run that goes on.
class LossFile {
 public:
  // FOLDER/losses.csv.part; an earlier one is overwritten.
  static absl::StatusOr<LossFile> Create(const std::string& folder);
  const std::string& part() const { return part_; }
  // The line is with the system when it returns.
  absl::Status Add(const TrainStep& step);
  // The run has ended: FOLDER/losses.csv.
  absl::Status Finish() { return file_.Commit(); }

 private:
  LossFile(NewFile file, std::string part) : file_(std::move(file)), part_(std::move(part)) {}
  NewFile file_;
  std::string part_;
};

// Writes the other three files into the folder and finishes the losses: all four, or none.
absl::StatusOr<RunFiles> WriteRunFiles(const std::string& folder, const TrainResult& result,
                                       LossFile* losses);

// A cost model as the YAML that --costs reads.
std::string PrintCosts(const CostModel& costs);

}  // namespace stringline
