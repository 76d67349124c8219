#include "executor/rehearsal/held_device.h"

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

void RunHeld(const void* /*self*/, int64_t /*duration_ns*/, NativeStream /*stream*/) {
  SL_CHECK(false) << "held work was given to a device that does not hold";
}

}  // namespace

Work HeldDevice::HoldFor(int64_t duration_ns) { return {RunHeld, nullptr, duration_ns}; }

void HeldDevice::Launch(StreamId stream, const Work& work, WorkTimes* times) {
  if (work.run == RunHeld) {
    device_->Hold(stream, work.argument, times);
  } else {
    device_->Launch(stream, work, times);
  }
}

}  // namespace stringline
