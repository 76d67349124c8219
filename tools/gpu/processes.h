// Forked processes, each of which returns a text.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace stringline {

// Runs the function in a process of its own for each number below `count`, and collects the
// returned texts. A process that dies has the text "killed by signal 9"; a process that exceeds the
// time limit is killed, and has "hung".
class Processes {
 public:
  Processes(int count, const std::function<std::string(int process)>& run);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Waits for all; returns their texts, by process.
  std::vector<std::string> Wait(int64_t timeout_ms = 60'000);

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
  };
  std::vector<Child> children_;
};

// Kills this process, as by `kill -9`, after the given time.
void KillMeAfter(int64_t us);

// A free port of the loopback.
int FreePort();

}  // namespace stringline
