// The progress of a command, on the terminal, from its second second on: a line on standard error,
// which is erased when the command ends, also by SIGINT or SIGTERM. Nothing if standard error is no
// terminal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tools/io/output.h"

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

  void Add() { ++done_; }         // another item is done; from any thread
  void Say(std::string how_far);  // the text behind the command's activity; from any thread

 private:
  void Tick();
  std::string Line(int64_t elapsed_ns) const;

  std::ostream* const terminal_;
  std::vector<int> signals_;  // signals caught to erase the line, which end the process afterwards
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
