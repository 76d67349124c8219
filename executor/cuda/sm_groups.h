// Multiprocessors of a GPU divided into groups, one for each rank: green contexts of the driver.
//
// Kernels of a stream in a group run on its multiprocessors only; memory, events and all else
// belong to the whole GPU. The driver's functions are looked up at run time, not linked.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline::cuda {

// The functions of the driver that the groups need.
#define STRINGLINE_SM_GROUP_FUNCTIONS(X) \
  X(cuGetErrorName)                      \
  X(cuDeviceGet)                         \
  X(cuDeviceGetDevResource)              \
  X(cuDevSmResourceSplitByCount)         \
  X(cuDevResourceGenerateDesc)           \
  X(cuGreenCtxCreate)                    \
  X(cuGreenCtxStreamCreate)              \
  X(cuGreenCtxDestroy)

struct SmGroupFunctions {
#define X(function) decltype(&::function) function = nullptr;
  STRINGLINE_SM_GROUP_FUNCTIONS(X)
#undef X
};

class SmGroups {
 public:
  // `groups` groups of `sms` multiprocessors each on the current GPU, number `ordinal`.
  // InvalidArgument: the GPU has too few, or allocates other multiples. Unimplemented: the driver
  // does not support groups.
  static absl::StatusOr<std::unique_ptr<SmGroups>> Make(int ordinal, int groups, int sms);
  // Called after its streams have ended.
  ~SmGroups();
  SmGroups(const SmGroups&) = delete;
  SmGroups& operator=(const SmGroups&) = delete;

  // A stream of the group, ended by cudaStreamDestroy.
  absl::StatusOr<cudaStream_t> NewStream(int group, int priority) const;
  // Leaks all groups, since the GPU hangs.
  void Abandon() { contexts_.clear(); }

 private:
  SmGroups() = default;
  absl::Status Checked(CUresult result, const char* call) const;
  absl::Status Split(int ordinal, int groups, int sms);
  absl::Status Add(CUdevResource* group, CUdevice device);

  SmGroupFunctions driver_;
  std::vector<CUgreenCtx> contexts_;  // by group
};

}  // namespace stringline::cuda
