// Forked processes, each of which says how it ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace stringline {

// Runs the function in a process of its own for each number below `count`; every process tells what
// the function returns. One that dies says "killed by signal 9"; one that is not done after so long
// is killed, and has "hung".
class Processes {
 public:
  Processes(int count, const std::function<std::string(int process)>& run);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Waits for all; what they said, by process.
  std::vector<std::string> Wait(int64_t timeout_ms = 60'000);

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
  };
  std::vector<Child> children_;
};

// Kills this process, as by `kill -9`, when so long has passed.
void KillMeAfter(int64_t us);

// A port of the loopback that nobody listens on now.
int FreePort();

}  // namespace stringline
