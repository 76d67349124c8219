// A step that enqueues the same every time, in phases between which the host looks at what the last
// one gave. On a device that can each phase is captured once, and replayed from then on; and how
// long the host takes to give all of them to the device is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/clock.h"
#include "executor/device.h"

namespace stringline {

// How long the host took over whole steps, all phases of them, until the device had them, without
// waiting for it. The first step and the one that is captured do not count, nor those of a device
// that captures none: there the host is what computes.
struct HostTime {
  int64_t issued_steps = 0;  // some phase was enqueued and given on op by op
  int64_t issued_ns = 0;     // of all of these
  int64_t captured_steps = 0;
  int64_t captured_ns = 0;

  // Nanoseconds a step; 0 where there is none.
  int64_t issued() const { return issued_steps == 0 ? 0 : issued_ns / issued_steps; }
  int64_t captured() const { return captured_steps == 0 ? 0 : captured_ns / captured_steps; }
};

// "85 us a step captured (412 us issued)"; "412 us a step issued, not captured: REASON"; "" where
// nothing was measured.
std::string Describe(const HostTime& host, const std::string& refusal);

class RepeatedStep {
 public:
  // `captures`: whether to, where the device can.
  RepeatedStep(Device* device, int phases, bool captures)
      : device_(device), captures_(captures && device->CanCapture()), phases_(phases, -1) {}

  // Performs what `enqueue()` enqueues, which is the same for this phase in every step. Phase 0
  // begins a step. Errors as Device::Synchronize.
  template <typename Enqueue>
  absl::Status Run(int phase, const Enqueue& enqueue) {
    const int64_t start_ns = NowNs();
    if (phases_[phase] < 0) enqueue();
    Give(phase, start_ns);
    return device_->Synchronize();
  }

  const HostTime& host_time() const { return host_; }
  // Why steps are not captured although they should be; "": they are, or will be. What was refused
  // for one phase is not tried for the next.
  const std::string& refusal() const { return refusal_; }

 private:
  // The first step makes what is made once; the second tells how long it takes to issue one.
  static constexpr int64_t kIssuedFirst = 2;
  void Give(int phase, int64_t start_ns);
  void Capture(int phase);
  void EndStep();

  Device* const device_;
  const bool captures_;
  std::vector<int> phases_;  // what Device::Capture gave for each; -1: issued
  int64_t steps_ = 0;        // that have begun
  int64_t step_ns_ = 0;      // of this one until now
  bool tried_ = false;       // to capture any of it
  std::string refusal_;
  HostTime host_;
};

}  // namespace stringline
