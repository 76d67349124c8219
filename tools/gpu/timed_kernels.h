// Kernels that record an event before and after each launch: the time of every op in a step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "executor/engine/backend.h"

namespace stringline {

// The launches of one op, or of one of the operations on whole blocks.
struct OpTime {
  int64_t launches = 0;
  double us = 0;  // of all, on the GPU, each with the gap before it if the GPU waited for the host
};

// The kernels of another backend, timed, for steps that are issued and not captured. A node that
// does an earlier node's work too counts as the later node's op.
class TimedKernels final : public Kernels {
 public:
  explicit TimedKernels(Kernels* timed) : timed_(timed) {}
  ~TimedKernels() override;
  TimedKernels(const TimedKernels&) = delete;
  TimedKernels& operator=(const TimedKernels&) = delete;

  absl::StatusOr<ReadyKernel> ReadyFor(const Graph& graph, const Node& node) override;
  absl::Status Prepare(absl::Span<const ParamBlock> blocks) override {
    return timed_->Prepare(blocks);
  }
  void Copy(void* to, const void* from, int64_t bytes, NativeStream stream) override;
  void Add(float* to, const float* from, int64_t count, NativeStream stream) override;
  void ClearBehind(const CountedRows& rows, NativeStream stream) override;
  void SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                    NativeStream stream) override;
  void Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
              NativeStream stream) override;
  std::string Describe() const override { return timed_->Describe(); }

  // Of all launches since the last call, by name. The device has been waited for.
  absl::StatusOr<std::map<std::string, OpTime>> Take();

 private:
  struct TimedNode {
    TimedKernels* kernels;
    ReadyKernel ready;
    const char* name;
  };
  struct Span {
    const char* name;
    cudaEvent_t begin, end;
  };
  // Calls `launch` between two events.
  template <class Launch>
  void Time(const char* name, NativeStream stream, const Launch& launch);
  cudaEvent_t Record(NativeStream stream);
  static void RunNode(const void* self, const NodeRun& run);

  Kernels* const timed_;
  std::deque<TimedNode> nodes_;
  std::vector<Span> spans_;
  std::vector<cudaEvent_t> free_;
  cudaError_t error_ = cudaSuccess;  // the first
};

}  // namespace stringline
