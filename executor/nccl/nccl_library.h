// The functions of NCCL that the engine calls, looked up at run time: programs start without the
// library, and are built without its header.
//
// The declarations are those of NCCL 2.28, accepted by versions from 2.18 on (ncclCommSplit). A
// configuration holds its own size: for every version it is the one that the version knows
// (NewConfig).
#pragma once

#include <cuda_runtime_api.h>

#include <climits>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace stringline::nccl {

struct Comm;  // a communicator

struct UniqueId {
  char bytes[128];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int { kInt8 = 0, kFloat32 = 7 };
enum RedOp : int { kSum = 0 };

constexpr int kNoColor = -1;     // for a split: no communicator
constexpr int kUnset = INT_MIN;  // for a Config: NCCL's choice

struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = kUnset;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset;
  int max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
  int traffic_class = kUnset;
  const char* comm_name = nullptr;
  int collnet_enable = kUnset;
  int cta_policy = kUnset;
  int shrink_share = kUnset;
  int nvls_ctas = kUnset;
  int channels_per_net_peer = kUnset;
  int nvlink_centric_sched = kUnset;
};

#define STRINGLINE_NCCL_FUNCTIONS(X)                                                            \
  X(GetVersion, Result, (int* version))                                                         \
  X(GetUniqueId, Result, (UniqueId * id))                                                       \
  X(GetErrorString, const char*, (Result result))                                               \
  X(GetLastError, const char*, (Comm * comm))                                                   \
  X(CommInitRankConfig, Result, (Comm * *comm, int ranks, UniqueId id, int rank, Config* how))  \
  X(CommSplit, Result, (Comm * comm, int color, int key, Comm** made, Config* how))             \
  X(CommFinalize, Result, (Comm * comm))                                                        \
  X(CommDestroy, Result, (Comm * comm))                                                         \
  X(CommAbort, Result, (Comm * comm))                                                           \
  X(CommGetAsyncError, Result, (Comm * comm, Result * error))                                   \
  X(GroupStart, Result, ())                                                                     \
  X(GroupEnd, Result, ())                                                                       \
  X(Send, Result,                                                                               \
    (const void* from, size_t count, DataType type, int peer, Comm* comm, cudaStream_t stream)) \
  X(Recv, Result,                                                                               \
    (void* to, size_t count, DataType type, int peer, Comm* comm, cudaStream_t stream))         \
  X(AllGather, Result,                                                                          \
    (const void* from, void* to, size_t count, DataType type, Comm* comm, cudaStream_t stream)) \
  X(Broadcast, Result,                                                                          \
    (const void* from, void* to, size_t count, DataType type, int root, Comm* comm,             \
     cudaStream_t stream))                                                                      \
  X(AllReduce, Result,                                                                          \
    (const void* from, void* to, size_t count, DataType type, RedOp op, Comm* comm,             \
     cudaStream_t stream))                                                                      \
  X(ReduceScatter, Result,                                                                      \
    (const void* from, void* to, size_t count, DataType type, RedOp op, Comm* comm,             \
     cudaStream_t stream))

// Each is NCCL's function of the same name, prefixed by "nccl".
struct Library {
#define X(name, result, parameters) result(*name) parameters = nullptr;
  STRINGLINE_NCCL_FUNCTIONS(X)
#undef X

  // Searches like the loader, so LD_LIBRARY_PATH may name the folder of a Python wheel. Unavailable
  // if the library is missing, incomplete or too old. It stays loaded as long as the process.
  static absl::StatusOr<Library> Open(const char* name = "libnccl.so.2");
  int version = 0;              // 22809
  std::string Version() const;  // "2.28.9"
  // A configuration with no member set.
  Config NewConfig() const;
};

}  // namespace stringline::nccl
