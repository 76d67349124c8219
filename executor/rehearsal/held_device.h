// A device with work that only takes time: it holds its stream, and no thread.
#pragma once

#include <cstdint>

#include "executor/cpu/device.h"
#include "executor/engine/device.h"

namespace stringline {

// Forwards everything to `device`, except work made by HoldFor, which holds its stream.
class HeldDevice final : public Device {
 public:
  explicit HeldDevice(CpuDevice* device) : device_(device) {}

  static Work HoldFor(int64_t duration_ns);

  StreamId NewStream(LazyName name, int capacity) override {
    return device_->NewStream(name, capacity);
  }
  EventId NewEvent(LazyName name) override { return device_->NewEvent(name); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override { return device_->Allocate(bytes); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return device_->AllocateHost(bytes);
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    return device_->CopyNow(to, from, bytes);
  }
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override;
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    device_->Copy(stream, to, from, bytes);
  }
  void Record(StreamId stream, EventId event) override { device_->Record(stream, event); }
  void Wait(StreamId stream, EventId event) override { device_->Wait(stream, event); }
  bool HasTurns() const override { return true; }
  void Turn(StreamId stream, Turns* turns, TurnOp op, uint32_t number) override {
    device_->Turn(stream, turns, op, number);
  }
  int64_t NowNs() const override { return device_->NowNs(); }
  void Submit() override { device_->Submit(); }
  absl::Status Synchronize() override { return device_->Synchronize(); }

 private:
  CpuDevice* const device_;
};

}  // namespace stringline
