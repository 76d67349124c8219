// Some ranks of a run on threads of this process, whose messages and hosts' exchanges with the
// other processes go over MPI.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/engine/backend.h"
#include "executor/mpi/mpi_world.h"
#include "executor/processes/group.h"
#include "executor/processes/identity.h"

namespace stringline {

// OK if MPI knows this process, and Open MPI can be loaded; FailedPrecondition or Unavailable with
// the reason. MPI is not begun.
absl::Status CanUseMpi(const Identity& identity);

class MpiBackend final : public Backend {
 public:
  // Joins the other processes, which all do so.
  // Errors: those of MpiWorld::Join; ResourceExhausted when the system does not start so many
  // threads, which the others are told.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const TcpWorldSettings& world,
                                                       const WireSettings& wires, int threads);

  Device* device() override { return device_.get(); }
  Groups* groups() override { return groups_.get(); }
  Kernels* kernels() override;
  AvailableMemory available(int /*place*/) override { return FindAvailableMemory(); }
  World* world() override { return world_.get(); }

 private:
  std::unique_ptr<MpiWorld> world_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<ProcessGroups> groups_;
};

}  // namespace stringline
