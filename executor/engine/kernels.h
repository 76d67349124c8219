// The computations of stages on one kind of device: a kernel for every node, and operations on
// whole blocks of numbers between nodes and between steps.
//
// All work is on a stream: a GPU enqueues it, a CPU does it at once. Gradients and parameters are
// float32. The same inputs give the same bits every time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/optimizer.h"
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
  // In the node's order, without overlap.
  absl::Span<const Tensor> in, out;
  // If accumulate[i] is set, out[i] (F32) is added to instead of overwritten: only for ops whose
  // row in ops.def allows it.
  absl::Span<const bool> accumulate;
  void* workspace;
  NativeStream stream;
};

// A run of a node launches so many kernels, copies and fills, at most: a gradient of an embedding
// sorts its tokens in four passes of three.
inline constexpr int64_t kMostLaunchesOfNode = 16;

// The kernel of one node, prepared for its shapes.
//
// A kernel may do an earlier node's work too, if no other node reads the earlier node's first
// output, and its further ones are outputs of the graph that no node reads. The earlier node is
// then not run and its first output not written; NodeRun::in has its inputs, followed by this
// node's other inputs, and NodeRun::out this node's outputs, followed by its further ones.
struct ReadyKernel {
  void (*run)(const void* self, const NodeRun& run) = nullptr;
  const void* self = nullptr;  // lives as long as the Kernels
  int64_t workspace_bytes = 0;
  int with = -1;  // the index of that earlier node in the graph
  // Not -1: the node's only output is already in this input, a value from outside the graph. The
  // node is then not run, and its output has that input's place, or is copied.
  int same_as = -1;
};

// Rows of a buffer with room for `most_rows`; the sum of the counts is the number of valid rows.
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

  // Called before the first step. Unimplemented, with the op's name, if no kernel exists for it.
  virtual absl::StatusOr<ReadyKernel> ReadyFor(const Graph& graph, const Node& node) = 0;
  // Also called before the first step: registers the lists that SumOfSquares and Update will be
  // called with. Each list stays in place and unchanged.
  virtual absl::Status Prepare(absl::Span<const ParamBlock> blocks) = 0;

  virtual void Copy(void* to, const void* from, int64_t bytes, NativeStream stream) = 0;
  // to[i] += from[i]
  virtual void Add(float* to, const float* from, int64_t count, NativeStream stream) = 0;
  // Zeroes the rows behind the valid ones.
  virtual void ClearBehind(const CountedRows& rows, NativeStream stream) = 0;

  // optimizer.h has the formulas. sums[i] is of the gradient of blocks[i], 0 if the block does not
  // count, and lies in memory from Device::AllocateHost.
  virtual void SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                            NativeStream stream) = 0;
  // `step` lies in memory from Device::AllocateHost and is read when the update runs: a replayed
  // capture reads its present contents.
  virtual void Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
                      NativeStream stream) = 0;

  // The choices made for the prepared nodes, a line each, for people; may be "".
  virtual std::string Describe() const { return ""; }
};

}  // namespace stringline
