// What a command is doing, on the terminal, from the second second on: one line on standard error,
// which goes when it is done, and when SIGINT or SIGTERM ends the process. Where standard error is
// no terminal, nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tools/output.h"

namespace stringline {

class Progress {
 public:
  static constexpr int64_t kPatienceNs = 1'000'000'000;

  // `doing`: "checking plans"; `total`: how many of them, 0 where nobody knows.
  Progress(const Output& output, std::string doing, size_t total = 0);
  // On `terminal` (null: nowhere), after so long.
  Progress(std::ostream* terminal, int64_t patience_ns, std::string doing, size_t total);
  ~Progress();  // the line is gone; nothing else may be written to the terminal before
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add() { ++done_; }  // one more is done; from any thread
  void Say(std::string how_far);  // what stands behind what it is doing; from any thread

 private:
  void Tick();
  std::string Line(int64_t elapsed_ns) const;

  std::ostream* const terminal_;
  std::vector<int> signals_;  // that take the line away; without it they would do what is usual
  const int64_t patience_ns_;
  const std::string doing_;
  const size_t total_;
  std::atomic<size_t> done_ = 0;
  std::mutex mutex_;  // guards the next two
  bool ended_ = false;
  std::string how_far_;
  std::condition_variable end_;
  std::vector<std::thread> ticker_;
};

}  // namespace stringline
