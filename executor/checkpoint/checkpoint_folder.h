// The folder of a run's checkpoints:
//
//   FOLDER/step-000200                 whole, after 200 steps
//   FOLDER/step-000400.tmp-RUN         under way; RUN is 16 hexadecimal digits
//   FOLDER/step-000000.tmp-RUN-old     during its removal
//
// At most one run writes there, and holds a lock on the folder (flock) to its end: a run that gets
// the lock and finds ".tmp-" in a name sees the leftovers of a killed run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedlang/base/made_folders.h"

namespace stringline {

struct CheckpointWish {
  int64_t every = 0;   // checkpoint.every, steps; 0: the run takes none
  std::string folder;  // checkpoint.folder
  int keep = 3;        // checkpoint.keep, default 3
};

// "step-000200"
std::string NameOfCheckpoint(int64_t step);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string folder;
};
// All folders named like checkpoints, the newest first; none if the folder does not exist.
std::vector<FoundCheckpoint> FindCheckpoints(const std::string& folder);

// FOLDER/step-000400.tmp-RUN
std::string UnfinishedFolder(const std::string& folder, int64_t step, const std::string& run);

class CheckpointFolder {
 public:
  // Makes the folder if needed, locks it, checks that the folder can be written, and removes the
  // leftovers of killed runs. `run` is this run's name.
  //   Unavailable         the folder cannot be made or written
  //   FailedPrecondition  another run writes there
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& folder,
                                                                const std::string& run);
  ~CheckpointFolder();  // unlocks the folder
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& folder() const { return folder_; }
  const std::string& run() const { return run_; }
  std::string Unfinished(int64_t step) const { return UnfinishedFolder(folder_, step, run_); }
  std::string Finished(int64_t step) const;

  // Gives Unfinished(step), whose files are all on the disk, its name, in place of any folder with
  // this name, and then removes all but the newest `keep` checkpoints up to this step.
  absl::Status Publish(int64_t step, int keep) const;
  void Remove(const std::string& checkpoint, int64_t step) const;

 private:
  CheckpointFolder(std::string folder, std::string run, int file, MadeFolders made);
  void RemoveLeftovers() const;

  const MadeFolders made_;
  const std::string folder_;
  const std::string run_;
  const int file_;
};

// Writes a new file and forces it to the disk. Errors name the path.
absl::Status WriteWhole(const std::string& path, const std::string& text);

}  // namespace stringline
