// One op on the CPU: a function from buffers to buffers.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "executor/engine/kernels.h"
#include "stages/graph.h"

namespace stringline::cpu {

// Runs one node. `in` and `out` are in the node's order and do not overlap. If `accumulate[i]` is
// set, out[i] (F32) is added to instead of overwritten: only for ops whose row in ops.def allows
// it. `workspace` has WorkspaceBytes(...) bytes. Single-threaded, leaves nothing allocated, and
// gives bitwise the same result for the same inputs every time.
using Kernel = void (*)(const Node& node, absl::Span<const Tensor> in, absl::Span<const Tensor> out,
                        absl::Span<const bool> accumulate, void* workspace);

// For F32 operands, beside integers.
Kernel KernelFor(Op op);
// For the node's operands, also of BF16.
Kernel KernelFor(const Graph& graph, const Node& node);

// Scratch memory that the kernel of `node` needs.
int64_t WorkspaceBytes(const Graph& graph, const Node& node);

// Keeps the math library from starting threads of its own when this thread calls it. A kernel does
// so on a thread's first run; calling this earlier saves the time in the first step.
void PrepareThread();

}  // namespace stringline::cpu
