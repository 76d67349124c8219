// A program whose time is known: every rank of a plan performs its computations one after the other
// and waits for nobody. So it takes as long as the rank that computes most.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

class RehearsalControl {
 public:
  // On a device of its own, with so many threads. ResourceExhausted when they do not start.
  static absl::StatusOr<std::unique_ptr<RehearsalControl>> Make(const Plan& plan,
                                                                const CostModel& costs, int threads,
                                                                DeviceTime time);

  int64_t known_ns() const { return known_ns_; }
  // Performs it once. Returns how long it took. Errors of Device::Synchronize.
  absl::StatusOr<int64_t> Run();

 private:
  struct Rank {
    StreamId stream;
    std::vector<int64_t> holds_ns;
    WorkTimes last;  // of its last computation
  };

  RehearsalControl() = default;

  std::unique_ptr<CpuDevice> device_;
  std::vector<Rank> ranks_;
  int64_t known_ns_ = 0;
};

}  // namespace stringline
