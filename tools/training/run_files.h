// The files that a training run leaves.
//
// These names always hold the results of a run that reached its end. During training, and after a
// run that did not reach its end, the losses are in `losses.csv.part`, and the results of an
// earlier run have `.old` behind their names; the next run that ends removes these. A failed run
// may leave flight records, too (flight_records.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/run/train.h"
#include "schedlang/base/made_folders.h"
#include "schedlang/base/new_file.h"

namespace stringline {

struct RunFolders {
  std::string out;   // as in RunFiles
  std::string save;  // "": parameters are not saved
  std::string load;  // "": a run begins with parameters drawn from the seed
};

struct RunFiles {
  std::string measured;   // the last step as executed: stringline show
  std::string simulated;  // the same step in virtual time
  std::string costs;      // the measured costs of its actions: stringline sim --costs
  std::string losses;     // step,loss_nats,grad_norm,learning_rate: a line per step, with as many
                          // digits as tell a double from every other; with evaluations also
                          // validation_nats, empty where there was none
};

// Makes the folder unless it exists, and writes and removes a small file there. The message names
// the folder.
absl::Status TryFolder(const std::string& folder, MadeFolders* made);

// Gives the results of an earlier run names that end in `.old`.
absl::Status SetResultsAside(const std::string& folder);

// The losses of a run under way.
class LossFile {
 public:
  // FOLDER/losses.csv.part; overwrites an earlier file.
  static absl::StatusOr<LossFile> Create(const std::string& folder, bool evaluates);
  const std::string& part() const { return part_; }
  const std::string& path() const { return path_; }
  // The system has the line when the call returns.
  absl::Status Add(const TrainStep& step);
  // No step has ended.
  void Discard() { file_.Discard(); }
  // The run has ended: FOLDER/losses.csv.
  absl::Status Finish() { return file_.Commit(); }

 private:
  LossFile(NewFile file, std::string path, std::string part, bool evaluates)
      : file_(std::move(file)),
        path_(std::move(path)),
        part_(std::move(part)),
        evaluates_(evaluates) {}
  NewFile file_;
  std::string path_;
  std::string part_;
  bool evaluates_;  // there is a column of validation losses
};

// Writes the other three files into the folder and finishes the losses: all four, or none.
absl::StatusOr<RunFiles> WriteRunFiles(const std::string& folder, const TrainResult& result,
                                       LossFile* losses);

// A cost model as YAML for --costs.
std::string PrintCosts(const CostModel& costs, int slices = 1);

}  // namespace stringline
