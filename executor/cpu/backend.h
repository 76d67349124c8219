// Ranks on threads of this process.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/cpu/device.h"
#include "executor/threads/group.h"

namespace stringline {

// The CPU's kernels: the functions of cpu/kernel.h, and loops. They keep nothing.
Kernels* CpuKernels();

class CpuBackend final : public Backend {
 public:
  // ResourceExhausted when the system does not start so many threads.
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
