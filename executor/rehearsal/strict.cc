#include "executor/rehearsal/strict.h"

#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/stage_work.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status RunStrict(const Plan& lowered, CommLayout layout) {
  CpuDevice device;
  NoWork work;
  ThreadGroups groups(&device);
  SL_ASSIGN_OR_RETURN(auto step,
                      Interpreter::Make(lowered, &work, &device, &groups,
                                        /*recorder=*/nullptr,
                                        {.order = MessageOrder::kListedWork, .layout = layout}));
  step->EnqueueStep();
  return device.Synchronize();
}

}  // namespace stringline
