// A backend with a fault at one place of a run: at an action of a rank in a step, or in the work
// after a step's gradients. All other calls go to the backend behind it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "executor/engine/backend.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The place: before an action of the plan; or before the rank adds up its squares, or updates a
// stage.
enum class FaultPlace : uint8_t { kAction, kSquares, kUpdate };

struct Fault {
  FaultPlace place = FaultPlace::kAction;
  int rank = 0;         // in the mesh; without effect unless in this process
  int step = 1;         // from 1
  uint32_t action = 0;  // index into the plan's; of kUpdate, index among the rank's stages
  // Called at the place, on the thread that has come to it; null: only `sizes`.
  std::function<void()> run;
  bool sizes = false;  // the message, or the collective, announces another size
};

class FaultyBackend final : public Backend {
 public:
  // `plan` is the run's plan: lowered, with its sums. It outlives this object.
  FaultyBackend(std::unique_ptr<Backend> of, const Plan& plan, Fault fault);
  ~FaultyBackend() override;

  Device* device() override;
  Groups* groups() override;
  Kernels* kernels() override { return of_->kernels(); }
  AvailableMemory available(int place) override { return of_->available(place); }
  World* world() override { return of_->world(); }

 private:
  class FaultyDevice;
  class FaultyGroup;
  class FaultyGroups;
  const std::unique_ptr<Backend> of_;
  std::unique_ptr<FaultyDevice> device_;
  std::unique_ptr<FaultyGroups> groups_;
};

}  // namespace stringline
