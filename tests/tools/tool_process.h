// The tool as a process of its own, which can be sent signals.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/tools/tool_run.h"

namespace stringline {

// The processes that a process has started and that have not ended.
std::vector<pid_t> ChildrenOf(pid_t process);

class ToolProcess {
 public:
  // Starts the tool in `folder`; it was told to ignore some signals.
  ToolProcess(const std::string& folder, const std::vector<std::string>& args,
              const std::vector<int>& ignored = {});
  ~ToolProcess();  // ends the process, unless a test has waited for its end
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  int id() const { return process_; }
  void Signal(int number) const;
  // Waits until `holds`. False: the process ended first, or the longest time for any wait passed.
  bool WaitUntil(const std::function<bool()>& holds);
  // Waits for the process's end. The status is the exit status, or minus the ending signal.
  Answer Wait();

 private:
  const std::string folder_;
  int process_ = -1;
};

}  // namespace stringline
