// What stages compute with on one kind of device: the kernel of every node, and what is done to
// whole blocks of numbers between nodes and between steps.
//
// Everything runs on a stream: a GPU enqueues it there, a CPU does it at once. Gradients and
// parameters are float32. The same inputs give the same bits every time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/device.h"
#include "executor/optimizer.h"
#include "stages/graph.h"

namespace stringline {

struct Tensor {
  void* data = nullptr;  // aligned as Device::Allocate has it, dense row-major
  const Type* type = nullptr;

  float* f32() const { return static_cast<float*>(data); }
  uint16_t* bf16() const { return static_cast<uint16_t*>(data); }  // bits
  int32_t* i32() const { return static_cast<int32_t*>(data); }
};

// One run of a node.
struct NodeRun {
  const Node& node;
  // In the node's order; they do not overlap.
  absl::Span<const Tensor> in, out;
  // Where accumulate[i] is set, out[i] (F32) is added to instead of overwritten: only for ops whose
  // row in ops.def says that they can.
  absl::Span<const bool> accumulate;
  void* workspace;
  NativeStream stream;
};

// The kernel of one node, made ready for its shapes.
//
// It may do the work of an earlier node too, whose only output nobody else reads. Then that node is
// not run and its output not written; NodeRun::in has its inputs, and after them this node's
// others.
struct ReadyKernel {
  void (*run)(const void* self, const NodeRun& run) = nullptr;
  const void* self = nullptr;  // lives as long as the Kernels
  int64_t workspace_bytes = 0;
  int with = -1;  // that earlier node's place in the graph
};

// Rows of a buffer that has room for `most_rows`; the counts say how many of them are there.
struct CountedRows {
  char* rows;
  int64_t row_bytes;
  int64_t most_rows;
  const int32_t* counts;
  int64_t how_many;  // counts
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  // Before the first step. Unimplemented, with the op's name, where there is no kernel for it.
  virtual absl::StatusOr<ReadyKernel> ReadyFor(const Graph& graph, const Node& node) = 0;
  // Before the first step too: for the lists that SumOfSquares and Update will be called with. Each
  // stays where it is, and as it is.
  virtual absl::Status Prepare(absl::Span<const ParamBlock> blocks) = 0;

  virtual void Copy(void* to, const void* from, int64_t bytes, NativeStream stream) = 0;
  // to[i] += from[i]
  virtual void Add(float* to, const float* from, int64_t count, NativeStream stream) = 0;
  // Zeros in the rows behind those that are there.
  virtual void ClearBehind(const CountedRows& rows, NativeStream stream) = 0;

  // optimizer.h has the formulas. sums[i] is of the gradient of blocks[i], 0 where it does not
  // count, and lies in memory from Device::AllocateHost.
  virtual void SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                            NativeStream stream) = 0;
  // `step` lies in memory from Device::AllocateHost and is read when the update runs: a captured
  // one, replayed, does what it says then.
  virtual void Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
                      NativeStream stream) = 0;

  // What was chosen for the nodes that were made ready, a line each, for people; "" where nothing
  // is.
  virtual std::string Describe() const { return ""; }
};

}  // namespace stringline
