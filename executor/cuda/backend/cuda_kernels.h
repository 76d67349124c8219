// The kernels of a GPU, or of several GPUs of one kind: the launches of every node (ops.h), and
// operations on whole blocks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "executor/cuda/backend/ops.h"
#include "executor/cuda/backend/param_list.h"
#include "executor/cuda/cudnn_attention.h"
#include "executor/cuda/declared_use.h"
#include "executor/cuda/device.h"
#include "executor/engine/kernels.h"

namespace stringline {

// An error of a launch is returned by the device's Synchronize, with the name of the first failed
// op.
struct CudaKernelSettings {
  // The source of attention in bf16, called when the first is prepared; its error is the reason for
  // using our own kernel.
  absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>> (*attention)() = cuda::CudnnAttention;
  // Off: the library's gradient of attention may have other last bits every time.
  bool deterministic = true;
  // All code is loaded before the first step, for processes whose messages wait on the GPU
  // (own_kernels.h).
  bool load = false;
  // The multiprocessors that products leave to messages, where ranks share all: constant in a run,
  // since algorithms and so bits depend on it.
  int free_sms = 0;
};

class CudaKernels final : public Kernels {
 public:
  using AttentionSource = decltype(CudaKernelSettings::attention);

  // `device` outlives the kernels, and calls none of them afterwards. Unavailable without the
  // library of products.
  static absl::StatusOr<std::unique_ptr<CudaKernels>> Make(CudaDevice* device,
                                                           const CudaKernelSettings& settings = {});
  ~CudaKernels() override;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  absl::StatusOr<ReadyKernel> ReadyFor(const Graph& graph, const Node& node) override;
  absl::Status Prepare(absl::Span<const ParamBlock> blocks) override;
  void Copy(void* to, const void* from, int64_t bytes, NativeStream stream) override;
  void Add(float* to, const float* from, int64_t count, NativeStream stream) override;
  void ClearBehind(const CountedRows& rows, NativeStream stream) override;
  void SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                    NativeStream stream) override;
  void Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
              NativeStream stream) override;

  // The algorithms of products and the plans of attention.
  std::string Describe() const override;

 private:
  struct ReadyNode {
    const CudaKernels* kernels;
    void (*launch)(const cuda::OpRun& run);
    int64_t workspace_bytes;
    absl::InlinedVector<cuda::NodeData, 1> data;  // by GPU
  };
  // The first position, the number of positions, half a head's size, theta.
  using RotaryKey = std::tuple<int64_t, int64_t, int64_t, double>;
  // The objects of a GPU.
  struct Gpu {
    std::unique_ptr<cuda::Products> products;
    // Set by the first request.
    std::optional<absl::StatusOr<std::unique_ptr<cuda::AttentionLibrary>>> attention;
    std::set<const cuda::AttentionPlan*> loaded;
    std::map<RotaryKey, const float*> rotary;
  };

  CudaKernels(CudaDevice* device, std::vector<Gpu> gpus, const CudaKernelSettings& settings);
  static void RunNode(const void* self, const NodeRun& run);
  static absl::Status FirstError(const void* self);
  void Keep(cudaError_t error, const char* what) const;
  void Keep(const absl::Status& status, const char* what) const;
  // The node's data on a GPU, and the size of its workspace there.
  absl::StatusOr<cuda::NodeData> DataFor(int gpu, const cuda::NodeTypes& types,
                                         int64_t* workspace_bytes);
  // Null if our own kernel is used.
  cuda::AttentionLibrary* Attention(Gpu* gpu);
  // The cosines and sines of all positions; computed once per model and GPU.
  absl::StatusOr<const float*> RotaryTable(int gpu, const RotaryKey& key);
  // A list of parameters, and the memory used by its launches.
  struct ReadyList {
    cuda::ParamList list;
    std::vector<StringlineUse> sums, update;
  };
  ReadyList& ListOf(absl::Span<const ParamBlock> blocks);

  CudaDevice* const device_;
  std::vector<Gpu> gpus_;  // by place of the device
  const CudaKernelSettings settings_;
  std::deque<ReadyNode> nodes_;
  absl::flat_hash_map<const ParamBlock*, ReadyList> lists_;
  mutable absl::Status error_;  // the first error not yet reported
};

}  // namespace stringline
