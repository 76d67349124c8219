// The kernels by op; each has the contract of Kernel in executor/cpu/kernel.h.
//
// Formula, shapes and accumulation rule stand above each definition. Letters as in stages/ops.def.
#pragma once

#include "executor/cpu/kernel.h"

namespace stringline::cpu {

using In = absl::Span<const Tensor>;
using Out = absl::Span<const Tensor>;
using Accumulate = absl::Span<const bool>;

#define X(op, ...) \
  void Run_##op(const Node& node, In in, Out out, Accumulate accumulate, void* workspace);
#include "stages/ops.def"
#undef X

// The number of rows along the last dimension, and the length of a row.
inline int64_t RowLength(const Tensor& tensor) { return tensor.type->shape.back(); }
inline int64_t RowCount(const Tensor& tensor) {
  return tensor.type->elements() / RowLength(tensor);
}

// A row's size in bytes.
inline int64_t RowBytes(const Tensor& tensor) {
  return RowLength(tensor) * BytesOf(tensor.type->dtype);
}
// The address of a row.
inline char* RowAt(const Tensor& tensor, int64_t row) {
  return static_cast<char*>(tensor.data) + row * RowBytes(tensor);
}

// `past` is null where there is no past.
int64_t AttentionWorkspace(const Type& qkv, const Type* past, absl::Span<const double> attributes);
int64_t AttentionGradWorkspace(const Type& qkv, const Type* past,
                               absl::Span<const double> attributes);
int64_t LayerNormGradWorkspace(const Type& x);
int64_t CrossEntropyWorkspace(const Type& logits);
int64_t RouteWorkspace(const Type& logits);
int64_t RouteGradWorkspace(const Type& logits);
int64_t BalanceWorkspace(const Type& logits);
int64_t DispatchPlanWorkspace(const Node& node);
int64_t SumRowsWorkspace(const Type& order);
int64_t ConvolutionWorkspace(const Node& node, int64_t channels_in_group);

int64_t RmsNormGradWorkspace(const Type& x);
int64_t HeadNormGradWorkspace(const Type& gamma);
int64_t RotaryWorkspace(const Type& qkv, absl::Span<const double> attributes);

}  // namespace stringline::cpu
