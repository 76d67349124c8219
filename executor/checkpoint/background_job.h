// A thread that does one thing after another beside whoever gives it to do.
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
  // Its thread goes after all others of this process where processors are few. ResourceExhausted:
  // there is none.
  static absl::StatusOr<std::unique_ptr<BackgroundJob>> Make();
  ~BackgroundJob();  // waits for what is under way
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  // What was started before has been waited for.
  void Start(std::function<absl::Status()> work);
  bool done();
  absl::Status Wait();  // until it is done; what it returned

 private:
  BackgroundJob() = default;
  void Run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::function<absl::Status()> work_;  // empty: nothing to do
  absl::Status result_;
  bool ending_ = false;
  std::vector<std::thread> thread_;
};

}  // namespace stringline
