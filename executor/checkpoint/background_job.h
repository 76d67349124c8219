// A thread that does jobs in turn beside the thread that starts them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline {

class BackgroundJob {
 public:
  // The thread has a lower priority than the other threads of this process. ResourceExhausted: the
  // system starts no thread.
  static absl::StatusOr<std::unique_ptr<BackgroundJob>> Make();
  ~BackgroundJob();  // waits for the current job
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  // The job before must have been waited for.
  void Start(std::function<absl::Status()> work);
  bool done();
  absl::Status Wait();  // until the job is done; its result

 private:
  BackgroundJob() = default;
  void Run();

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::function<absl::Status()> work_;  // empty: nothing to do
  absl::Status result_;
  bool ending_ = false;
  std::vector<std::thread> thread_;
};

}  // namespace stringline
