// Processes of a run, simulated by threads of a test: each has a backend and a world of its own,
// and all are on one CPU device, so that their ranks can meet.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/cpu/backend.h"

namespace stringline {

class SharedMachine {
 public:
  // `ranks[p]` are the ranks of process p.
  explicit SharedMachine(std::vector<std::vector<int>> ranks, int threads = 2);

  // The bytes that a process has given in exchanges so far.
  int64_t exchanged_bytes(int process) const { return exchanged_[static_cast<size_t>(process)]; }

  // The backend of a process; called once for each. The machine outlives them.
  std::unique_ptr<Backend> Join(int process);

 private:
  friend class PlayedDevice;
  friend class PlayedGroups;
  friend class PlayedWorld;

  // Waits until all processes have come; the last does `work`, whose status all return. After a
  // process has given up, all get its status instead.
  template <typename Work>
  absl::Status Meet(Work work);
  void GiveUp(const absl::Status& status);

  std::unique_ptr<Backend> backend_;
  const std::vector<std::vector<int>> ranks_;
  std::mutex mutex_;
  std::condition_variable met_;
  int came_ = 0;
  int64_t meetings_ = 0;
  absl::Status result_;
  absl::Status failure_;
  std::vector<std::string> told_, heard_;  // in this exchange, and in the last
  std::vector<int64_t> exchanged_;         // by process
  struct MadeGroup {
    std::vector<int> ranks;
    Group* group;
  };
  std::deque<MadeGroup> groups_;
};

}  // namespace stringline
