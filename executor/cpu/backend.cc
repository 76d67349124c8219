#include "executor/cpu/backend.h"

#include <cstring>
#include <utility>

#include "executor/cpu/kernel.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

class HostKernels final : public Kernels {
 public:
  absl::StatusOr<ReadyKernel> ReadyFor(const Graph& graph, const Node& node) override {
    return ReadyKernel{RunNode, reinterpret_cast<const void*>(cpu::KernelFor(graph, node)),
                       cpu::WorkspaceBytes(graph, node)};
  }

  absl::Status Prepare(absl::Span<const ParamBlock> /*blocks*/) override {
    return absl::OkStatus();
  }

  void Copy(void* to, const void* from, int64_t bytes, NativeStream /*stream*/) override {
    std::memcpy(to, from, bytes);
  }

  void Add(float* to, const float* from, int64_t count, NativeStream /*stream*/) override {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }

  void ClearBehind(const CountedRows& rows, NativeStream /*stream*/) override {
    int64_t there = 0;
    for (int64_t i = 0; i < rows.how_many; ++i) there += rows.counts[i];
    std::memset(rows.rows + there * rows.row_bytes, 0, (rows.most_rows - there) * rows.row_bytes);
  }

  void SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                    NativeStream /*stream*/) override {
    for (size_t i = 0; i < blocks.size(); ++i) {
      sums[i] = blocks[i].counts ? stringline::SumOfSquares(blocks[i].gradient) : 0;
    }
  }

  void Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
              NativeStream /*stream*/) override {
    for (const ParamBlock& block : blocks) {
      if (block.balances) {
        UpdateBalance(step.balance_rate, block.values, block.gradient);
      } else if (block.momentum > 0) {
        UpdateAverage(block.momentum, step.microbatches, block.values, block.gradient);
      } else {
        UpdateAdamW(step.adamw, step.number, step.scale, block.decays, block.values, block.gradient,
                    block.m, block.v);
      }
      ToBf16(block.values.data(), static_cast<int64_t>(block.working.size()), block.working.data());
    }
  }

 private:
  static void RunNode(const void* self, const NodeRun& run) {
    reinterpret_cast<cpu::Kernel>(const_cast<void*>(self))(run.node, run.in, run.out,
                                                           run.accumulate, run.workspace);
  }
};

}  // namespace

Kernels* CpuKernels() {
  static HostKernels* const kernels = new HostKernels;
  return kernels;
}

absl::StatusOr<std::unique_ptr<Backend>> CpuBackend::Make(int threads, const CallTimes& link) {
  cpu::PrepareThread();
  SL_ASSIGN_OR_RETURN(auto device, CpuDevice::Make(threads, cpu::PrepareThread, DeviceTime::kReal,
                                                   /*carries=*/link.duration_ns != nullptr));
  return std::unique_ptr<Backend>(new CpuBackend(std::move(device), link));
}

}  // namespace stringline
