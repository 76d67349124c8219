// A program of known duration: the computations of a plan in rounds. In the k-th round every rank
// performs the first half of its k-th computation, and all wait for each other; then the second
// half, and they wait again. A half has as many holds as a step has, one after the other, for the
// parts of the computation, since each hold may end late. So it takes the sum over half rounds of
// the longest half, and a delay of one rank by a busy machine delays all, at least as much as in
// any step of the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/engine/stage_work.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class RehearsalControl {
 public:
  // On a device of its own with `threads` threads. ResourceExhausted if they do not start. `work`
  // is that of the step, for the layers of its stages.
  static absl::StatusOr<std::unique_ptr<RehearsalControl>> Make(const Plan& plan,
                                                                const CostModel& costs,
                                                                const StageWork& work, int threads,
                                                                DeviceTime time);

  int64_t known_ns() const { return known_ns_; }
  // The number of holds of a rank.
  int HoldsOf(int rank) const;
  // Performs the program once and returns its duration. Errors of Device::Synchronize.
  absl::StatusOr<int64_t> Run();

 private:
  struct Half {
    int64_t ns = 0;
    int holds = 1;
  };
  struct Rank {
    StreamId stream;
    std::vector<Half> halves;  // two per round
    WorkTimes last;            // its last hold
  };

  explicit RehearsalControl(int ranks);

  std::unique_ptr<CpuDevice> device_;
  std::vector<Rank> ranks_;
  MeetingPlace meeting_;
  int64_t known_ns_ = 0;
};

}  // namespace stringline
