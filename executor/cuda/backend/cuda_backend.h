// A backend of streams on one GPU, or on several GPUs of one process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cuda/backend/cuda_kernels.h"
#include "executor/cuda/copies/group.h"
#include "executor/cuda/device.h"
#include "executor/engine/backend.h"

namespace stringline {

struct CudaSettings {
  std::vector<int> gpus = {0};  // their numbers (gpus.h)
  int ranks = 1;                // the mesh's, on these GPUs
  int sms_per_rank = 0;         // multiprocessors for each rank's kernels alone; 0: ranks share all
  bool deterministic = true;    // CudaKernelSettings
  int64_t timeout_ns = 0;       // bound on the wait of Synchronize; 0: none
  LinkSpeed link;               // simulated speed of messages and exchanges
};

class CudaBackend final : public Backend {
 public:
  // Unavailable without the GPU, a driver, or cuBLASLt; else as CudaDevice::Make.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const CudaSettings& settings = {});

  Device* device() override { return device_.get(); }
  Groups* groups() override { return &groups_; }
  Kernels* kernels() override { return kernels_.get(); }
  AvailableMemory available(int place) override { return device_->available(place); }
  std::string DescribePlaces() const override;

 private:
  CudaBackend(std::unique_ptr<CudaDevice> device, std::unique_ptr<CudaKernels> kernels,
              const CudaSettings& settings)
      : device_(std::move(device)),
        groups_(device_.get(), settings.link),
        kernels_(std::move(kernels)),
        gpus_(settings.gpus),
        ranks_(settings.ranks),
        sms_per_rank_(settings.sms_per_rank) {}

  const std::unique_ptr<CudaDevice> device_;
  CopyGroups groups_;
  const std::unique_ptr<CudaKernels> kernels_;
  const std::vector<int> gpus_;
  const int ranks_;
  const int sms_per_rank_;
};

}  // namespace stringline
