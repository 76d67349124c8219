// Shows a tool like Nsight the work issued by the host: ranges in a domain of our own, and names of
// streams. Without a tool, names are neither printed nor kept. A range covers the issue of the
// work, not its run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "executor/engine/device.h"

namespace stringline {

class NvtxRanges {
 public:
  NvtxRanges();

  // Ends the open range, if any, and begins a range of that name; without `print`, none. Names are
  // printed once.
  void Enter(const LazyName& name);
  void NameStream(cudaStream_t stream, const std::string& name);

 private:
  void* domain_ = nullptr;  // null: no tool
  bool open_ = false;
  // By name: the tool's handle.
  using Key = std::tuple<std::string (*)(const void*, int64_t), const void*, int64_t>;
  absl::flat_hash_map<Key, void*> names_;
};

}  // namespace stringline
