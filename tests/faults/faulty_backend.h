// A backend in which one thing goes wrong at one place of a run: at an action of a rank in a step,
// or in what follows a step's gradients. Everything else is the backend that it stands before.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "executor/backend.h"
#include "schedlang/plan.h"

namespace stringline {

// Where: before an action of the plan; or before the rank adds up its squares, or updates one of
// its stages.
enum class FaultPlace : uint8_t { kAction, kSquares, kUpdate };

struct Fault {
  FaultPlace place = FaultPlace::kAction;
  int rank = 0;         // of the mesh; of this process, or nothing ever happens
  int step = 1;         // from 1
  uint32_t action = 0;  // index into the plan's; of kUpdate which of the rank's stages
  // What happens there, on the thread that has come to it; null: only `sizes`.
  std::function<void()> run;
  bool sizes = false;  // the message, or the collective, says that it is of another size
};

class FaultyBackend final : public Backend {
 public:
  // `plan` is what the run performs: lowered, with its sums. It outlives this object.
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
