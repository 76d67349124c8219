// The tool as a process of its own, which can be sent signals.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/tools/tool_run.h"

namespace stringline {

class ToolProcess {
 public:
  // Starts the tool in `folder`.
  ToolProcess(const std::string& folder, const std::vector<std::string>& args);
  ~ToolProcess();  // ends it, if nobody has waited for its end
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  int id() const { return process_; }
  void Signal(int number) const;
  // Waits until `holds`. False: the process has ended before, or it took longer than anything does.
  bool WaitUntil(const std::function<bool()>& holds);
  // Waits for its end. The status is the exit status, or minus the signal that ended it.
  Answer Wait();

 private:
  const std::string folder_;
  int process_ = -1;
};

}  // namespace stringline
