// Matrix products of BF16 by oneDNN's matmul: sums in F32, rounded once.
#pragma once

#include <optional>

#include "executor/cpu/kernels/kernels.h"

namespace stringline::cpu {

// The product's workspace in bytes; nullopt if the node is no product of BF16, or the library has
// no kernel for this processor's BF16 instructions (AVX512_BF16). Chooses the library's kernels,
// which are kept for the life of the process.
std::optional<int64_t> Bf16ProductWorkspace(const Graph& graph, const Node& node);

// Runs a node for which Bf16ProductWorkspace gives a value; with the contract of Kernel.
void RunBf16Product(const Node& node, In in, Out out, Accumulate accumulate, void* workspace);

}  // namespace stringline::cpu
