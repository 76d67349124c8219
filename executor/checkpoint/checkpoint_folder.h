// The folder of a run's checkpoints:
//
//   FOLDER/step-000200                 a whole one, after 200 steps
//   FOLDER/step-000400.tmp-RUN         one that the run is writing, RUN being 16 hexadecimal digits
//   FOLDER/step-000000.tmp-RUN-old     one that is being removed
//
// One run at a time writes there, and holds a lock on the folder (flock) while it lives: what has
// ".tmp-" in its name when another one gets the lock was left by a run that was killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline {

// "step-000200"
std::string NameOfCheckpoint(int64_t step);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string folder;
};
// What has the name of a checkpoint, the newest first; none where there is no such folder.
std::vector<FoundCheckpoint> FindCheckpoints(const std::string& folder);

// FOLDER/step-000400.tmp-RUN
std::string UnfinishedFolder(const std::string& folder, int64_t step, const std::string& run);

class CheckpointFolder {
 public:
  // Makes the folder, if need be, locks it, tries whether it can be written, and removes what runs
  // that were killed have left. `run` is this run's.
  //   Unavailable         it cannot be made or written
  //   FailedPrecondition  another run writes there
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& folder,
                                                                const std::string& run);
  ~CheckpointFolder();  // unlocks it
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& folder() const { return folder_; }
  const std::string& run() const { return run_; }
  std::string Unfinished(int64_t step) const { return UnfinishedFolder(folder_, step, run_); }
  std::string Finished(int64_t step) const;

  // All files of Unfinished(step) are on the disk: gives it its name, in the place of what had it,
  // and then removes all but the newest `keep` of those up to it.
  absl::Status Publish(int64_t step, int keep) const;
  void Remove(const std::string& checkpoint, int64_t step) const;

 private:
  CheckpointFolder(std::string folder, std::string run, int file);
  void RemoveLeftovers() const;

  const std::string folder_;
  const std::string run_;
  const int file_;
};

// Writes a file anew and forces it to the disk. Errors name the path.
absl::Status WriteWhole(const std::string& path, const std::string& text);

}  // namespace stringline
