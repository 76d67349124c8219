// Some ranks of a run on threads of this process; the others are in other processes, here or on
// other hosts.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/engine/backend.h"
#include "executor/processes/group.h"
#include "executor/processes/tcp_world.h"

namespace stringline {

// The ways of ProcessesBackend::MakeOver to join the others, and to make their wires.
using JoinWorld =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<World>>(const TcpWorldSettings&)>;
using NewWires = absl::FunctionRef<std::unique_ptr<Wires>(CpuDevice* device, World* world)>;

class ProcessesBackend final : public Backend {
 public:
  // Joins the other processes, which all do so.
  // Errors: those of TcpWorld::Join; ResourceExhausted when the system does not start so many
  // threads, which the others are told.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const TcpWorldSettings& world,
                                                       const WireSettings& wires, int threads);
  // The same over something else than TCP (executor/mpi), with the errors of `join`.
  static absl::StatusOr<std::unique_ptr<Backend>> MakeOver(const TcpWorldSettings& world,
                                                           int threads, JoinWorld join,
                                                           NewWires wires);

  Device* device() override { return device_.get(); }
  Groups* groups() override { return groups_.get(); }
  Kernels* kernels() override;
  AvailableMemory available(int /*place*/) override { return FindAvailableMemory(); }
  World* world() override { return world_.get(); }

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<ProcessGroups> groups_;
};

}  // namespace stringline
