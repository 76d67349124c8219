// A backend whose ranks run on threads of this process.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/backend.h"

namespace stringline {

// The CPU's kernels: the functions of cpu/kernel.h, and loops. Stateless.
Kernels* CpuKernels();

class CpuBackend final : public Backend {
 public:
  // ResourceExhausted if the system does not start `threads` threads, and one more that carries
  // messages over a slow link.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(int threads, const CallTimes& link);

  Device* device() override { return device_.get(); }
  Groups* groups() override { return &groups_; }
  Kernels* kernels() override { return CpuKernels(); }
  AvailableMemory available(int /*place*/) override { return FindAvailableMemory(); }

 private:
  CpuBackend(std::unique_ptr<CpuDevice> device, const CallTimes& link)
      : device_(std::move(device)), groups_(device_.get(), link) {}

  const std::unique_ptr<CpuDevice> device_;
  ThreadGroups groups_;
};

}  // namespace stringline
