// Ranks on streams of one GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/copies/group.h"
#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/device.h"

namespace stringline {

struct CudaSettings {
  int ordinal = 0;
  int64_t timeout_ns = 0;  // that Synchronize waits at most; 0: for ever
  LinkSpeed link;          // how slow messages and exchanges are made
};

class CudaBackend final : public Backend {
 public:
  // The GPU with that number. Unavailable when there is none, or no driver, or no
  // cuBLASLt.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const CudaSettings& settings = {});

  Device* device() override { return device_.get(); }
  Groups* groups() override { return &groups_; }
  Kernels* kernels() override { return kernels_.get(); }
  AvailableMemory available() override { return device_->available(); }

 private:
  CudaBackend(std::unique_ptr<CudaDevice> device, std::unique_ptr<CudaKernels> kernels,
              const LinkSpeed& link)
      : device_(std::move(device)), groups_(device_.get(), link), kernels_(std::move(kernels)) {}

  const std::unique_ptr<CudaDevice> device_;
  CopyGroups groups_;
  const std::unique_ptr<CudaKernels> kernels_;
};

}  // namespace stringline
