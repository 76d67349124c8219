// A step that enqueues the same operations every time, in phases between which the host reads the
// last phase's results. A device that captures runs each phase from a capture after the first
// steps; the host's time to issue a step is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/engine/device.h"
#include "schedlang/base/clock.h"

namespace stringline {

// The host's time to hand whole steps, all phases of them, to the device, without waiting for their
// end. Excluded are the first step, the captured step, and devices without capture, whose work runs
// on the host.
struct HostTime {
  int64_t issued_steps = 0;  // some phase was issued operation by operation
  int64_t issued_ns = 0;     // total of these steps
  int64_t captured_steps = 0;
  int64_t captured_ns = 0;

  // Nanoseconds per step; 0 without a step.
  int64_t issued() const { return issued_steps == 0 ? 0 : issued_ns / issued_steps; }
  int64_t captured() const { return captured_steps == 0 ? 0 : captured_ns / captured_steps; }
};

// "85 us a step captured (412 us issued)"; "412 us a step issued, not captured: REASON"; "" without
// a measurement.
std::string Describe(const HostTime& host, const std::string& refusal);

class RepeatedStep {
 public:
  // `captures`: capture steps if the device can.
  RepeatedStep(Device* device, int phases, bool captures)
      : device_(device), captures_(captures && device->CanCapture()), phases_(phases, -1) {}

  // Performs the operations enqueued by `enqueue()`, the same for this phase in every step. Phase 0
  // begins a step. Errors as Device::Synchronize.
  template <typename Enqueue>
  absl::Status Run(int phase, const Enqueue& enqueue) {
    const int64_t start_ns = NowNs();
    if (phases_[phase] < 0) enqueue();
    Give(phase, start_ns);
    return device_->Synchronize();
  }

  const HostTime& host_time() const { return host_; }
  // The reason why steps are not captured although requested; "": they are, or will be. After a
  // refusal for one phase, no further phase is tried.
  const std::string& refusal() const { return refusal_; }

 private:
  // The first step makes lasting objects; the second measures the time to issue a step.
  static constexpr int64_t kIssuedFirst = 2;
  void Give(int phase, int64_t start_ns);
  void Capture(int phase);
  void EndStep();

  Device* const device_;
  const bool captures_;
  std::vector<int> phases_;  // Device::Capture's result for each; -1: issued
  int64_t steps_ = 0;        // steps begun
  int64_t step_ns_ = 0;      // the present step's time until now
  bool tried_ = false;       // to capture any phase
  std::string refusal_;
  HostTime host_;
};

}  // namespace stringline
