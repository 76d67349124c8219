// Nodes with BF16 operands: products by the library (bf16_products.h), row copies unchanged, all
// else by the F32 kernel on widened copies.
#pragma once

#include "executor/cpu/kernels/kernels.h"

namespace stringline::cpu {

bool HasBf16(const Graph& graph, const Node& node);

// With the contract of Kernel: BF16 inputs are widened into the workspace, the F32 kernel runs, and
// its results are rounded to nearest. F32 outputs are written directly, so they can be added to.
void RunWidened(const Node& node, In in, Out out, Accumulate accumulate, void* workspace);
int64_t WidenedWorkspace(const Graph& graph, const Node& node, int64_t of_f32_kernel);

}  // namespace stringline::cpu
