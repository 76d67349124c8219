#include "executor/strict.h"

#include "executor/cpu/device.h"
#include "executor/interpreter.h"
#include "executor/stage_work.h"
#include "executor/threads/transport.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status RunStrict(const Plan& lowered) {
  CpuDevice device;
  NoWork work;
  const Channels channels = ChannelsOf(lowered);
  ThreadTransport transport(&device, static_cast<int>(channels.all.size()));
  SL_ASSIGN_OR_RETURN(auto step,
                      Interpreter::Make(lowered, &work, &device, &transport, /*recorder=*/nullptr,
                                        MessageOrder::kListedWork));
  step->EnqueueStep();
  return device.Synchronize();
}

}  // namespace stringline
