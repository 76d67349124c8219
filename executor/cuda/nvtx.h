// Shows a tool like Nsight what the host gives to the GPU: ranges in a domain of our own, and names
// of streams. Where no tool looks, nothing is printed and nothing is kept. A range covers the
// issue of the work, and not the work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "executor/device.h"

namespace stringline {

class NvtxRanges {
 public:
  NvtxRanges();

  // Ends the range that is open, if any, and begins one of that name; without `print` none. Names
  // are printed once.
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
