// Nodes with BF16 operands: products by the library (bf16_products.h), rows that are only copied as
// they are, everything else by the F32 kernel on widened copies.
#pragma once

#include "executor/cpu/kernels/kernels.h"

namespace stringline::cpu {

bool HasBf16(const Graph& graph, const Node& node);

// With the contract of Kernel: BF16 inputs are widened into the workspace, the F32 kernel runs, and
// what it gives is rounded to the nearest. F32 outputs are its own, so it can add to them.
void RunWidened(const Node& node, In in, Out out, Accumulate accumulate, void* workspace);
int64_t WidenedWorkspace(const Graph& graph, const Node& node, int64_t of_f32_kernel);

}  // namespace stringline::cpu
